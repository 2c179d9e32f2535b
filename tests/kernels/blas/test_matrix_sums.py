"""Products of matrices of bf16, by BFMMLA and without it, in an emulator: the bits of Arm's definition in fractions."""

import subprocess
from math import isnan
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mavcg.choose.lowering.kernel_code import KERNEL_FLAGS
from mavcg.kernels.blas.product_tile import PACKED, ProductTile
from mavcg.specs.blas_blocks import MATRIX_TERMS
from mavcg.specs.kernel import Machine
from mavcg.toolchain.codegen import CodegenJob, compile_module
from mavcg.toolchain.target import parse_target
from mavcg.toolchain.zig import run_zig
from tests.kernels.blas.matrix_products import added_to_odd, number, product
from tests.kernels.blas.tile_text import tile_text
from tests.machine import QEMU

TARGET = parse_target("aarch64-linux-musl")
ROWS, COLUMNS, STEPS = 4, 3, 3  # three: an iteration of two steps, and one that is left
MACHINES = (
    Machine("generic", "aarch64", "generic", ("+neon",)),
    Machine("cortex-x2", "aarch64", "cortex-x2", bf16_dot=True),
)
TILE = ProductTile("bf16", ROWS, 1, COLUMNS, PACKED, step_terms=MATRIX_TERMS)
DRIVER = """
#include <stdint.h>
#include <stdio.h>
typedef void tile(int64_t, const void *, const void *, void *, const void *, int64_t);
extern tile by_f64 __asm__("%s.generic"), by_matrices __asm__("%s.cortex-x2");
int main(void) {
    static uint16_t a[%d], b[%d];
    float c[2][%d];
    const struct { int64_t a, b, column, c; float alpha, alpha_high, beta, beta_high; } steps = {0, 0, 0, 16, 1};
    while (fread(a, sizeof a, 1, stdin) == 1 && fread(b, sizeof b, 1, stdin) == 1) {
        by_f64(%d, a, b, c[0], &steps, 4);
        by_matrices(%d, a, b, c[1], &steps, 4);
        fwrite(c, sizeof c, 1, stdout);
    }
    return 0;
}
"""


def sums(a: NDArray[np.uint16], b: NDArray[np.uint16]) -> NDArray[np.float32]:
    """[COLUMNS, ROWS]. a: [STEPS, ROWS, 4]; b: [STEPS, COLUMNS, 4]."""
    out = np.zeros((COLUMNS, ROWS), np.float32)
    for column in range(COLUMNS):
        for row in range(ROWS):
            total = 0.0
            for step in range(STEPS):
                terms = [
                    product(number(int(x)), number(int(y))) for x, y in zip(a[step, row], b[step, column], strict=True)
                ]
                for first in (0, 2):
                    total = added_to_odd(total, added_to_odd(terms[first], terms[first + 1]))
            out[column, row] = np.nan if isnan(total) else total
    return out


def operands(seed: int, least: int, exponents: int, count: int) -> NDArray[np.uint16]:
    """[count, STEPS * (ROWS + COLUMNS) * 4] numbers with one of some exponents, from `least` on."""
    random = np.random.default_rng(seed)
    shape = (count, STEPS * (ROWS + COLUMNS) * MATRIX_TERMS)
    sign, exponent, mantissa = (random.integers(0, n, shape) for n in (2, exponents, 128))
    return (sign << 15 | (least + exponent) << 7 | mantissa).astype(np.uint16)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if QEMU is None:
        pytest.skip("needs qemu-user-static")
    folder = tmp_path_factory.mktemp("matrix_sums")
    objects = []
    for machine in MACHINES:
        text = tile_text(TILE, machine, TARGET)
        objects.append(str(folder / f"{machine.name}.o"))
        compile_module(CodegenJob(text, TARGET, "compiling", "2", emit="obj", flags=KERNEL_FLAGS), Path(objects[-1]))
    sizes = (STEPS * ROWS * MATRIX_TERMS, STEPS * COLUMNS * MATRIX_TERMS, ROWS * COLUMNS, STEPS, STEPS)
    (folder / "driver.c").write_text(DRIVER % (TILE.symbol, TILE.symbol, *sizes))
    words = ["-target", TARGET.zig_name, "-static", "-O1", str(folder / "driver.c"), *objects]
    run_zig("cc", [*words, "-o", str(folder / "program")], "linking the program")
    return folder / "program"


@pytest.mark.parametrize(
    ("least", "exponents"),
    [(120, 8), (0, 256), (0, 70), (60, 12), (185, 12), (250, 6), (0, 3)],
    ids=["near 1", "all", "subnormal", "smallest products", "largest products", "infinite", "zeros"],
)
def test_both_versions_give_the_bits_of_the_definition(least: int, exponents: int, program: Path) -> None:
    given = operands(least + exponents, least, exponents, 20)
    done = subprocess.run([str(QEMU), "-cpu", "max", str(program)], input=given.tobytes(), capture_output=True)
    assert done.returncode == 0, done.stderr
    by_f64, by_matrices = np.frombuffer(done.stdout, np.uint32).reshape(20, 2, COLUMNS, ROWS).transpose(1, 0, 2, 3)
    cut = STEPS * ROWS * MATRIX_TERMS
    want = np.stack(
        [
            sums(case[:cut].reshape(STEPS, ROWS, MATRIX_TERMS), case[cut:].reshape(STEPS, COLUMNS, MATRIX_TERMS))
            for case in given
        ]
    )
    assert np.array_equal(by_matrices, want.view(np.uint32))
    assert np.array_equal(by_f64, want.view(np.uint32))
