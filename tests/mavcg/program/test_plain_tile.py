"""Tiles in plain C, 6x8 of f32 and 8x8 of f16, on a Cortex-A55: operations a cycle of the version's main loop."""

import json
from pathlib import Path
from typing import Any

import pytest

TILE = """
void tile(long depth, const float *a, long lda, const float *b, long ldb, float *c, long ldc) {{
    float sum[6][8] = {{{{0}}}};
    for (long k = 0; k < depth; k++)
        for (int row = 0; row < 6; row++)
            for (int column = 0; column < 8; column++) sum[row][column] += a[{a}] * b[{b} + column];
    for (int row = 0; row < 6; row++)
        for (int column = 0; column < 8; column++) c[ldc * row + column] += sum[row][column];
}}
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("a", "b", "least"),
    [
        ("6 * k + row", "8 * k", 8.0),
        ("lda * row + k", "8 * k", 7.2),  # a row's scalars by a pointer that moves from row to row
        ("6 * k + row", "ldb * k", 7.2),
    ],
    ids=["packed", "rows of A in memory", "rows of B in memory"],
)
def test_a_tile_reaches_nine_tenths_of_the_peak(mavcg: Any, here: Path, a: str, b: str, least: float) -> None:
    """Of 8 FLOP a cycle, 7.2 or more: also for a judge who has 4 cycles from `ldr x` to `ins`, where this model has 3.

    Sources disagree about that latency; a schedule that needs the smaller one loses up to a tenth on a core with the
    larger one.
    """
    (here / "tile.c").write_text(TILE.format(a=a, b=b))
    done = mavcg("build", "--source", "tile.c", "--hot", "tile", "--cores", "cortex-a55", "-o", "tile.so")
    assert done.status == 0, done.stderr
    for facts in ((), ("--set", "ldr_x->ins=4")):
        shown = mavcg("explain", "tile.so", "tile", "--core", "cortex-a55", "--json", *facts)
        loop = json.loads(shown.stdout)["loops"][0]
        assert loop["flops_per_cycle"] >= least, (facts, loop["because"])


HALVES = """
void tile(long depth, const _Float16 *a, const _Float16 *b, _Float16 *restrict c) {
    _Float16 sum[8][8] = {{0}};
    for (long k = 0; k < depth; k++)
        for (int row = 0; row < 8; row++)
            for (int column = 0; column < 8; column++) sum[row][column] += a[8 * k + row] * b[8 * k + column];
    for (int row = 0; row < 8; row++)
        for (int column = 0; column < 8; column++) c[8 * row + column] = sum[row][column];
}
"""


@pytest.mark.long
def test_a_tile_of_halves_reaches_the_peak(mavcg: Any, here: Path) -> None:
    """32 vector products in 32 cycles, where generic code takes 60 and LLVM's for the core 51: one product a cycle."""
    (here / "tile.c").write_text(HALVES)
    options = ["--source", "tile.c", "--flag=-march=armv8.2-a+fp16", "--hot", "tile", "--cores", "cortex-a55"]
    done = mavcg("build", *options, "-o", "tile.so", "--json")
    assert done.status == 0, done.stderr
    [function] = json.loads(done.stdout)["functions"]
    model = function["versions"][1]["model"]

    cycles = {form: 32 * 16 / model[form] for form in ("generic", "directive", "tuned")}
    assert cycles["tuned"] == 32.0 and cycles["directive"] > 50 and cycles["generic"] > 50
    shown = mavcg("explain", "tile.so", "tile", "--core", "cortex-a55", "--json", "--set", "ldr_x->ins=4")
    assert json.loads(shown.stdout)["loops"][0]["flops_per_cycle"] >= 14.4
