"""Pairs of bf16 by VDPBF16PS and by f32 multiply-adds, on this machine: the bits of Intel's definition in fractions."""

import platform
import subprocess
from fractions import Fraction
from math import copysign, floor, inf, isfinite, isnan, log2
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mavcg.choose.lowering.kernel_code import KERNEL_FLAGS
from mavcg.kernels.blas.product_tile import PACKED, ProductTile
from mavcg.specs.kernel import Machine
from mavcg.toolchain.codegen import CodegenJob, compile_module
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import run_zig
from tests.kernels.blas.matrix_products import number
from tests.kernels.blas.tile_text import tile_text

ROWS, COLUMNS, STEPS, CASES = 16, 2, 5, 5  # five: an iteration of four steps, and one that is left
MULTIPLY_ADDS = Machine("generic", "x86_64", "x86-64-v3", vector_bytes=32, vector_registers=16)
PAIRS = Machine("znver4", "x86_64", "znver4", vector_bytes=64, bf16_dot=True)
TILE = ProductTile("bf16", ROWS, 1, COLUMNS, PACKED, step_terms=2)
DRIVER = """
#include <stdint.h>
#include <stdio.h>
typedef void tile(int64_t, const void *, const void *, void *, const void *, int64_t);
extern tile multiply __asm__("%s.%s");
int main(void) {
    static uint16_t a[%d], b[%d];
    float c[%d];
    const struct { int64_t a, b, column, c; float alpha, alpha_high, beta, beta_high; } steps = {0, 0, 0, 64, 1};
    __builtin_ia32_ldmxcsr(0x1f80 | 0x8040);
    while (fread(a, sizeof a, 1, stdin) == 1 && fread(b, sizeof b, 1, stdin) == 1) {
        multiply(%d, a, b, c, &steps, 16);
        fwrite(c, sizeof c, 1, stdout);
    }
    return 0;
}
"""


def fused(total: float, x: float, y: float) -> float:
    """Total + x * y as f32, rounded once to nearest even; a subnormal result counts as 0."""
    if not (isfinite(total) and isfinite(x) and isfinite(y)):
        return total + x * y
    exact = Fraction(total) + Fraction(x) * Fraction(y)
    if exact == 0:
        return total + x * y
    size = abs(exact)
    exponent = floor(log2(size.numerator) - log2(size.denominator))
    exponent += (size >= Fraction(2) ** (exponent + 1)) - (size < Fraction(2) ** exponent)
    units = size / Fraction(2) ** (exponent - 23)
    rounded = round(units) * Fraction(2) ** (exponent - 23)  # of two nearest whole numbers the even one
    if rounded < Fraction(2) ** -126:
        return copysign(0.0, exact)
    return copysign(inf if rounded >= Fraction(2) ** 128 else float(rounded), exact)


def sums(a: NDArray[np.uint16], b: NDArray[np.uint16]) -> NDArray[np.float32]:
    """[COLUMNS, ROWS]. a: [STEPS, ROWS, 2]; b: [STEPS, COLUMNS, 2]. The second product of a pair comes first."""
    out = np.zeros((COLUMNS, ROWS), np.float32)
    for column, row in np.ndindex(COLUMNS, ROWS):
        total = 0.0
        for step in range(STEPS):
            for side in (1, 0):
                total = fused(total, number(int(a[step, row, side])), number(int(b[step, column, side])))
        out[column, row] = np.nan if isnan(total) else total
    return out


def offers(flag: str) -> bool:
    cpuinfo = Path("/proc/cpuinfo")
    return platform.machine() == "x86_64" and cpuinfo.exists() and flag in cpuinfo.read_text().split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pair_product")


@pytest.mark.parametrize(
    ("machine", "flag"), [(MULTIPLY_ADDS, "avx2"), (PAIRS, "avx512_bf16")], ids=["multiply-adds", "pairs"]
)
def test_sums_have_the_bits_of_the_definition(machine: Machine, flag: str, folder: Path) -> None:
    if not offers(flag):
        pytest.skip(f"this machine has no {flag}")
    target, made = host_target(), folder / f"{machine.name}.o"
    text = tile_text(TILE, machine, target)
    compile_module(CodegenJob(text, target, "compiling", "2", emit="obj", flags=KERNEL_FLAGS), made)
    source, program = folder / f"{machine.name}.c", folder / machine.name
    sizes = (STEPS * ROWS * 2, STEPS * COLUMNS * 2, ROWS * COLUMNS, STEPS)
    source.write_text(DRIVER % (TILE.symbol, machine.name, *sizes))
    run_zig("cc", ["-O1", str(source), str(made), "-o", str(program)], "linking the program")
    for least, exponents in ((120, 8), (0, 256), (0, 70), (60, 12), (185, 12), (250, 6), (0, 3)):
        random = np.random.default_rng(least + exponents)
        shape = (CASES, STEPS * (ROWS + COLUMNS) * 2)
        sign, exponent, mantissa = (random.integers(0, n, shape) for n in (2, exponents, 128))
        given = (sign << 15 | (least + exponent) << 7 | mantissa).astype(np.uint16)
        done = subprocess.run([str(program)], input=given.tobytes(), capture_output=True)
        assert done.returncode == 0, done.stderr
        found = np.frombuffer(done.stdout, np.float32).reshape(CASES, COLUMNS, ROWS)
        cut = STEPS * ROWS * 2
        cases = [(case[:cut].reshape(STEPS, ROWS, 2), case[cut:].reshape(STEPS, COLUMNS, 2)) for case in given]
        want = np.stack([sums(*case) for case in cases])
        assert np.array_equal(np.isnan(found), np.isnan(want))  # which NaN is not defined
        assert np.array_equal(found[~np.isnan(want)].view(np.uint32), want[~np.isnan(want)].view(np.uint32))
