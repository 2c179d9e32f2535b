"""8-bit convolutions by AMX's tiles: the bits of the definition, where the host has tiles; their text anywhere."""

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llvmlite import ir
from numpy.typing import NDArray

from mavcg.choose.lowering.kernel_code import kernel_module
from mavcg.graph import Graph, Node, type_of
from mavcg.graph.ops import infer, make_node
from mavcg.graph.reference import evaluate
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.int8.register_tile import ProductForm, SumRun, tile_form
from mavcg.kernels.int8.specs import EightBitConvolution, QConv2d
from mavcg.kernels.int8.tile_sums import pixel_tiles
from mavcg.kernels.registry import emit, lower
from mavcg.runtime.binding import tiles_permitted
from mavcg.specs.kernel import Machine, Packing, Step, dense_view
from mavcg.toolchain.codegen import CodegenJob, compile_module
from mavcg.toolchain.target import parse_target
from tests.conftest import Golden
from tests.kernels.conftest import run_node_on
from tests.kernels.int8.test_conv2d import ending, numbers

Array = NDArray[Any]
MACHINE = Machine(
    "sapphirerapids",
    "x86_64",
    "sapphirerapids",
    ("-prefer-256-bit",),
    vector_bytes=64,
    vector_registers=32,
    dot_product=True,
    int8_tiles=True,
)
PACKING = Packing(lanes=16, int8_tiles=True)


@cache
def why_not() -> str:
    """Why this machine cannot run tiles, or nothing."""
    if not llvm.get_host_cpu_features().get("amx-int8"):
        return "this processor has no AMX-INT8"
    return "" if tiles_permitted() else "the system permits no tiles"


def convolution(
    x: tuple[int, ...], w: tuple[int, ...], dtype: str, residual: bool = False, **attrs: Any
) -> tuple[Node, Graph, dict[str, Array], Array]:
    """A requantized convolution, its inputs and its result by the definition. residual: adds an image, and rescales."""
    seed = sum(x) + 7 * sum(w)
    bias, multiplier, result = ending(seed, int(np.prod(w[1:])), w[0], dtype, dtype)
    values = {"x": numbers(seed, dtype, x)}
    if residual:
        values["r"] = numbers(seed + 1, "i8", (*x[:3], w[0]))
        result |= {"own_lo": -37, "own_hi": 45, "own_scale": 0.83, "residual_scale": -0.41, "residual_zero": 9}
    constants = {"w": numbers(seed, "i8", w), "bias": bias, "multiplier": multiplier}
    names = ("x", "w", "bias", "multiplier", "", "r" if residual else "")
    return of_node("qconv2d", names, values, constants, **result, **attrs)


def of_node(
    op: str, names: tuple[str, ...], values: dict[str, Array], constants: dict[str, Array], **attrs: Any
) -> tuple[Node, Graph, dict[str, Array], Array]:
    """A graph of one node, its inputs and its result by the definition."""
    node = make_node(op, names, ("y",), "tested", **attrs)
    types = {name: type_of(array) for name, array in (values | constants).items()}
    types["y"] = infer(node, types, constants)[0]
    graph = Graph("test", tuple(values), ("y",), (node,), types, constants)
    (wanted,) = evaluate(node, [(values | constants).get(name) for name in names])
    return node, graph, values, wanted


def step_of(node: Node, graph: Graph) -> Step:
    views = {name: dense_view(graph.types[name]) for name in (*node.inputs, *node.outputs) if name}
    (step,) = lower(node, graph, views, PACKING)
    return step


def form_of_node(node: Node, graph: Graph, machine: Machine = MACHINE) -> ProductForm:
    spec = step_of(node, graph).spec
    assert isinstance(spec, EightBitConvolution)
    return spec.form(machine)


SHAPES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 7, 9, 64), (32, 1, 1, 64), {}),
    ((1, 5, 7, 32), (48, 3, 3, 32), {}),
    ((1, 3, 35, 48), (40, 1, 3, 48), {}),
    ((1, 9, 9, 16), (16, 3, 3, 16), {"stride": (2, 2)}),
    ((2, 6, 20, 128), (66, 2, 1, 64), {"groups": 2, "dilation": (2, 1)}),
    ((1, 1, 40, 160), (64, 1, 1, 160), {}),
    ((1, 1, 3, 512), (64, 1, 1, 512), {}),
    ((1, 9, 38, 3), (64, 7, 7, 3), {"stride": (2, 2)}),
]


@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_the_same_bits_as_the_definition(shape: int, dtype: str) -> None:
    if why_not():
        pytest.skip(why_not())
    x, w, attrs = SHAPES[shape]
    node, graph, values, wanted = convolution(x, w, dtype, **attrs)

    assert form_of_node(node, graph).in_tiles
    assert_runs(node, graph, values, wanted)


def assert_runs(node: Node, graph: Graph, values: dict[str, Array], wanted: Array) -> None:
    for parts in (1, 3):
        (result,) = run_node_on(MACHINE, node, graph, values, parts=parts, packing=PACKING, optimised=False)
        np.testing.assert_array_equal(result, wanted)


def test_residuals_are_added_once_where_tiles_overlap() -> None:
    if why_not():
        pytest.skip(why_not())
    node, graph, values, wanted = convolution((1, 3, 35, 64), (40, 1, 1, 64), "u8", residual=True)

    assert form_of_node(node, graph).in_tiles and pixel_tiles(35).again
    assert_runs(node, graph, values, wanted)


def test_exact_sums_by_a_zero_point_of_the_run() -> None:
    if why_not():
        pytest.skip(why_not())
    values = {"x": numbers(5, "u8", (21, 128)), "zero": np.asarray(77, np.uint8)}
    weights = numbers(6, "i8", (128, 40)).astype(np.int16)
    node, graph, _, wanted = of_node("imatmul", ("x", "w", "zero"), values, {"w": weights})

    assert form_of_node(node, graph).in_tiles
    assert_runs(node, graph, values, wanted)


def test_convolutions_that_gain_too_little_are_not_in_tiles() -> None:
    """Few terms, one pixel, runs that are no whole groups; and cores without tiles."""
    for x, w in (
        ((1, 1, 1, 512), (64, 1, 1, 512)),
        ((1, 9, 9, 16), (96, 1, 1, 16)),
        ((1, 9, 9, 3), (32, 3, 3, 3)),
        ((1, 9, 9, 37), (32, 1, 1, 37)),
    ):
        node, graph, _, _ = convolution(x, w, "u8")
        assert form_of_node(node, graph).kind == "vnni"
    node, graph, _, _ = convolution((1, 9, 9, 64), (64, 3, 3, 64), "u8")
    without = form_of_node(node, graph, replace(MACHINE, int8_tiles=False))
    assert (form_of_node(node, graph).kind, without.kind) == ("tdpbusd", "vnni")


def test_runs_are_filled_for_tiles_within_a_row() -> None:
    """Rows of 21 bytes of 7 taps, to 24 bytes; not where the last window ends with the row, nor for few taps."""
    for width, kernel, beyond in ((38, 7, 3), (37, 7, 0), (34, 3, 0)):
        node, graph, _, _ = convolution((1, 9, width, 3), (64, kernel, kernel, 3), "u8", stride=(2, 2))
        spec = step_of(node, graph).spec
        assert isinstance(spec, QConv2d) and (spec.beyond, spec.form(MACHINE).in_tiles) == (beyond, beyond > 0)
    assert SumRun(((7, 690),), 21).in_whole_groups(3) == SumRun(((7, 690),), 24, unused=3)
    assert SumRun((), 24, unused=3).terms()[-1] == (20, -1, -1, -1)


def test_rows_of_tiles_are_equal_parts_of_a_run() -> None:
    """No wider than a row of a tile, and whole groups of four terms."""
    rows = {length: tile_form("u8", SumRun((), length), MACHINE) for length in (4, 64, 96, 144, 160, 192, 216, 9, 68)}

    assert {length: form and form.row_terms for length, form in rows.items()} == {
        **{4: 4, 64: 64, 96: 48, 144: 48, 160: 40, 192: 64, 216: 36, 9: None, 68: 4}
    }


@given(width=st.integers(1, 200))
def test_tiles_cover_a_row_of_pixels(width: int) -> None:
    cut = pixel_tiles(width)
    starts = [min(n * cut.pixels, width - cut.pixels) for n in range(cut.count)]

    assert 1 <= cut.pixels <= 16 and cut.count == -(-width // 16) and 0 <= cut.again < cut.pixels
    assert {pixel for start in starts for pixel in range(start, start + cut.pixels)} == set(range(width))


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_their_text(dtype: str, golden: Golden) -> None:
    """Two tiles of 9 pixels by two panels, of which the last has four channels; two rows of 48 terms of each tap."""
    node, graph, _, _ = convolution((1, 1, 18, 96), (20, 1, 1, 96), dtype)
    spec = step_of(node, graph).spec
    module = ir.Module("tiles")
    emit(module, spec, MACHINE)
    assert golden == str(module).replace(kernel_name(spec), spec.family)


def test_their_instructions(tmp_path: Path) -> None:
    """Blocks of few loads for each product; shapes are set once, and tiles released at the end."""
    node, graph, _, _ = convolution((1, 7, 28, 128), (64, 1, 1, 128), "u8")
    target = parse_target("x86_64-linux-gnu")
    module = kernel_module([step_of(node, graph).spec], MACHINE, "t", target)
    compile_module(CodegenJob(module, target, "test"), tmp_path / "kernel.s")
    names = Counter(re.findall(r"^\s+(tile\w+|tdp\w+|ldtilecfg|callq?)\b", (tmp_path / "kernel.s").read_text(), re.M))

    assert names["ldtilecfg"] == names["tilerelease"] == 1 and names["tdpbusd"] >= 4 and not names["callq"]
    starts = names["tilestored"]  # each sum begins with a tile of biases
    assert names["tileloadd"] - starts <= names["tdpbusd"] * 5 // 4 and not names["tilezero"]
