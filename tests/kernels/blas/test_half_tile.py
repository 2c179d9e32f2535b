"""Tiles that add in f16, with and without the arithmetic, on this machine: bits of f16 multiply-adds and f32 sums."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from llvmlite import ir
from numpy.typing import NDArray

from mavcg.choose.lowering.kernel_code import KERNEL_FLAGS, version_symbol
from mavcg.kernels.blas.half_tile import emit_half_tile
from mavcg.kernels.blas.product_tile import PACKED, ProductTile
from mavcg.kernels.builder.module_text import add_core_attributes
from mavcg.specs.blas_blocks import ALL_F16, F16_SUM_TERMS
from mavcg.specs.kernel import Machine
from mavcg.toolchain.codegen import CodegenJob, compile_module
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import run_zig
from tests.kernels.blas.test_pair_product import offers

ROWS, COLUMNS, TERMS, CASES = 32, 3, F16_SUM_TERMS + 7, 6  # iterations of four terms, some that are left, two sums
TILE = ProductTile(ALL_F16, ROWS, 1, COLUMNS, PACKED)
CONVERTED = Machine("generic", "x86_64", "x86-64-v3", vector_bytes=32, vector_registers=16)
HALF = Machine("sapphirerapids", "x86_64", "sapphirerapids", vector_bytes=64, half=True)
DRIVER = """
#include <stdint.h>
#include <stdio.h>
typedef void tile(int64_t, const void *, const void *, void *, const void *, int64_t);
extern tile multiply __asm__("%s");
int main(void) {
    static uint16_t a[%d], b[%d];
    static float c[%d];
    const struct { int64_t a, b, column, c; float alpha, alpha_high, beta, beta_high; } steps = {0, 0, 0, 128, 1};
    while (fread(a, sizeof a, 1, stdin) == 1 && fread(b, sizeof b, 1, stdin) == 1) {
        multiply(%d, a, b, c, &steps, 32);
        fwrite(c, sizeof c, 1, stdout);
    }
    return 0;
}
"""


def sums(a: NDArray[np.float16], b: NDArray[np.float16]) -> NDArray[np.float32]:
    """[COLUMNS, ROWS]. a: [TERMS, ROWS]; b: [TERMS, COLUMNS]. f64 holds each product and sum that f16 can."""
    total = np.zeros((COLUMNS, ROWS), np.float32)
    for first in range(0, TERMS, F16_SUM_TERMS):
        part = np.zeros((COLUMNS, ROWS), np.float16)
        for x, y in zip(a[first : first + F16_SUM_TERMS], b[first : first + F16_SUM_TERMS], strict=True):
            part = (y[:, None].astype(np.float64) * x.astype(np.float64) + part.astype(np.float64)).astype(np.float16)
        total += part
    return total


@pytest.mark.parametrize(("machine", "flag"), [(CONVERTED, "f16c"), (HALF, "avx512_fp16")], ids=["converted", "in f16"])
def test_sums_have_the_bits_of_the_definition(machine: Machine, flag: str, tmp_path: Path) -> None:
    if not offers(flag):  # test_boards.py has cores of AArch64, emulated
        pytest.skip(f"this machine has no {flag}")
    module = ir.Module("tile")
    module.triple = host_target().llvm_triple
    emit_half_tile(module, machine, TILE)
    symbol = version_symbol(TILE.symbol, machine.name)
    text = add_core_attributes(module, machine).replace(f'@"{TILE.symbol}"', f'@"{symbol}"')
    made, source, program = tmp_path / "tile.o", tmp_path / "driver.c", tmp_path / "driver"
    compile_module(CodegenJob(text, host_target(), "compiling", "2", emit="obj", flags=KERNEL_FLAGS), made)
    source.write_text(DRIVER % (symbol, TERMS * ROWS, TERMS * COLUMNS, ROWS * COLUMNS, TERMS))
    run_zig("cc", ["-O1", str(source), str(made), "-o", str(program)], "linking the program")

    for least, exponents in ((12, 5), (0, 16), (0, 3), (0, 31), (20, 12)):  # the last: infinities and NaN, too
        random = np.random.default_rng(least + exponents)
        shape = (CASES, TERMS * (ROWS + COLUMNS))
        sign, exponent, mantissa = (random.integers(0, n, shape) for n in (2, exponents, 1024))
        given = (sign << 15 | (least + exponent) << 10 | mantissa).astype(np.uint16)
        done = subprocess.run([program], input=given.tobytes(), capture_output=True, timeout=60, check=True)
        got = np.frombuffer(done.stdout, np.float32).reshape(CASES, COLUMNS, ROWS)
        with np.errstate(over="ignore", invalid="ignore"):
            for case, result in zip(given.view(np.float16), got, strict=True):
                a, b = case[: TERMS * ROWS].reshape(TERMS, ROWS), case[TERMS * ROWS :].reshape(TERMS, COLUMNS)
                assert np.array_equal(result, sums(a, b), equal_nan=True), (least, exponents)
