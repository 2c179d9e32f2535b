"""Products of many lines by AMX's tiles: the bits of other cores, where the host has tiles; their instructions."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.choose.lowering.kernel_code import kernel_module
from mavcg.kernels.block_weights.packing import BlockFormat
from mavcg.kernels.block_weights.spec import BlockProduct, Lines, block_pitch, least_tile_lines, tile_form
from mavcg.kernels.registry import lower
from mavcg.specs.kernel import Machine, Packing, dense_view
from mavcg.toolchain.codegen import CodegenJob, compile_module
from mavcg.toolchain.target import parse_target
from tests.kernels.block_weights.test_product import assert_close, graph_of, inputs_of
from tests.kernels.conftest import machines_of_all_widths, run_node_on
from tests.kernels.int8.test_tile_sums import MACHINE, PACKING, why_not

PAIRS = Packing(8)  # of panels of 8 channels, whose lines lie in pairs


def assert_same_bits(case: tuple[Any, ...], seed: int, machines: tuple[Machine, ...]) -> None:
    """Assert that tiles have the bits of other machines, whichever packing their library has."""
    inputs, attrs = inputs_of(np.random.default_rng(seed), case)
    graph = graph_of(inputs, attrs)
    results = [
        run_node_on(
            machine, graph.nodes[0], graph, {"x0": inputs[0]}, parts=1 + seed % 3, packing=packing, optimised=False
        )[0]
        for machine in machines
        for packing in (PACKING, *([PAIRS] if machine.vector_bytes <= 32 else []))
    ]
    assert_close(results[0], graph, inputs)
    assert all(result.tobytes() == results[0].tobytes() for result in results)


@pytest.mark.parametrize(
    "case",
    [
        (17, 70, 21, 4, 32, True, True, True),
        (11, 200, 17, 8, 64, True, False, True),
        (29, 96, 16, 2, 48, False, True, True),
        (48, 64, 33, 4, 32, False, False, True),
        (16, 224, 16, 4, 32, True, False, True),
        (32, 512, 16, 8, 512, False, False, True),
    ],
    ids=str,
)
def test_the_bits_of_other_cores(case: tuple[Any, ...]) -> None:
    if why_not():
        pytest.skip(why_not())
    assert_same_bits(case, 7, (MACHINE, machines_of_all_widths()[0]))


@pytest.mark.parametrize("lines", [16, 29])
def test_residuals_of_tiles(lines: int) -> None:
    if why_not():
        pytest.skip(why_not())
    inputs, attrs = inputs_of(np.random.default_rng(8), (lines, 160, 40, 4, 32, False, True, True))
    residual = np.random.default_rng(9).standard_normal((lines, 40)).astype(np.float32)
    results = []
    for more in ([], [None, residual]):
        graph = graph_of([*inputs, *more], attrs)
        arrays = {name: array for name, array in (("x0", inputs[0]), ("x6", residual)) if name in graph.inputs}
        results += run_node_on(MACHINE, graph.nodes[0], graph, arrays, parts=2, packing=PACKING, optimised=False)[:1]
    assert results[1].tobytes() == (results[0] + residual).tobytes()


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 70),
    st.integers(1, 300),
    st.integers(1, 50),
    st.sampled_from([(2, 48), *((bits, block) for bits in (2, 4, 8) for block in (32, 64, 128)), (4, 24), (8, 96)]),
    st.tuples(st.booleans(), st.booleans()),
    st.integers(0, 1 << 20),
)
def test_any_sizes(
    lines: int, depth: int, width: int, form: tuple[int, int], ends: tuple[bool, bool], seed: int
) -> None:
    machines = machines_of_all_widths()
    with_tiles = (MACHINE,) if not why_not() else ()
    assert_same_bits((lines, depth, width, *form, *ends, True), seed, (*with_tiles, machines[0], machines[-1]))


def test_the_fewest_lines_of_a_tile_by_the_cost_model() -> None:
    """Fewer the longer a block is, as a tile's ending does not grow; short blocks, whose endings are all, gain none."""
    least = {block: least_tile_lines(BlockFormat(4, block, 16, "f16", False)) for block in (8, 16, 32, 64, 128, 256)}
    assert list(least.values()) == sorted(least.values(), reverse=True)
    assert least[8] == least[16] == 17 and 8 <= least[32] <= 14 and least[256] >= 2
    assert least_tile_lines(BlockFormat(4, 32, 8, "f16", False)) == 17  # panels of AArch64


def test_rows_of_tiles_are_equal_parts_of_a_block() -> None:
    forms = {block: tile_form(BlockFormat(4, block, 16, "f16", False)) for block in (24, 32, 64, 96, 128, 72)}
    assert {block: form and form.row_terms for block, form in forms.items()} == {
        24: 24,
        32: 32,
        64: 64,
        96: 48,
        128: 64,
        72: 36,
    }


def product_of(case: tuple[Any, ...], packing: Packing, largest_zero: int = 0) -> BlockProduct:
    inputs, attrs = inputs_of(np.random.default_rng(0), case)
    if largest_zero:
        inputs[3][0, 0] = largest_zero
    graph = graph_of(inputs, attrs)
    views = {name: dense_view(typ) for name, typ in graph.types.items()}
    spec = lower(graph.nodes[0], graph, views, packing)[-1].spec
    assert isinstance(spec, BlockProduct)
    return spec


def test_a_library_without_tiles_has_no_scratch_for_them() -> None:
    """Without tiles there are sums of lines and a block's numbers."""
    case = (16, 640, 16, 4, 32, False, False, True)
    assert product_of(case, PACKING).scratch_bytes == 640 * 16 + 20 * 64
    assert product_of(case, replace(PACKING, int8_tiles=False)).scratch_bytes == 16 * 64 + 32 * 16
    assert product_of((10, *case[1:]), PACKING).scratch_bytes == 10 * 64 + 32 * 16


def test_numbers_less_a_zero_point_take_8_bits() -> None:
    """Zero points of 4 bits that are no numbers of 4 bits are left to dot products."""
    case = (16, 64, 16, 4, 32, True, False, True)
    assert product_of(case, PACKING, 15).tiled
    assert not product_of(case, PACKING, 16).tiled
    assert product_of((16, 64, 16, 8, 32, True, False, True), PACKING, 255).tiled


@given(st.integers(2, 600), st.sampled_from([8, 16, 24, 32, 64, 128]))
def test_blocks_of_a_line_share_no_sets_of_a_cache(lines: int, block: int) -> None:
    pitch = block_pitch(Lines(lines, 1, 0, 1), block)
    assert pitch >= lines * block and pitch % 128 == 64


def test_instructions(tmp_path: Path) -> None:
    """Products of three blocks before the loop, of four in it; shapes are set once, tiles released at the end."""
    spec = product_of((32, 128, 16, 4, 32, False, False, True), PACKING)
    target = parse_target("x86_64-linux-gnu")
    compile_module(CodegenJob(kernel_module([spec], MACHINE, "t", target), target, "test"), tmp_path / "kernel.s")
    names = Counter(re.findall(r"^\s+(tile\w+|tdp\w+|ldtilecfg|callq?)\b", (tmp_path / "kernel.s").read_text(), re.M))
    assert names == {
        **dict.fromkeys(("ldtilecfg", "tilerelease"), 1),
        **dict.fromkeys(("tdpbssd", "tilezero"), 7),
        "tilestored": 6,
        "tileloadd": 14,
    }
