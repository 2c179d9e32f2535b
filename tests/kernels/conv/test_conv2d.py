"""Convolution and matrix products against the definition in double precision, at tile edges and in strided views."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir
from numpy.typing import NDArray

from mavcg.graph import Graph, Node, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.reference import evaluate
from mavcg.kernels.conv.depthwise import Depthwise, is_crowded, reads_whole_lines, tile_of
from mavcg.kernels.conv.depthwise_loops import emit_depthwise
from mavcg.kernels.conv.spec import Conv2d
from mavcg.kernels.gemm.tile import LINE_CHANNELS, pack_depthwise
from mavcg.kernels.registry import lower
from mavcg.specs.kernel import Machine, Packing, View, dense_view
from tests.conftest import examples
from tests.kernels.conftest import host_machines, run_node_on

Array = NDArray[Any]
X86 = Machine("x86", "x86_64", "x86-64-v3", vector_bytes=32, vector_registers=16)
BIG = Machine("big", "aarch64", "cortex-a75", ("+neon",))
LITTLE = Machine("little", "aarch64", "cortex-a55", ("+neon",), in_order=True)


def graph_of(
    op: str, arrays: dict[str, Array], constants: set[str], inputs: list[str], **attrs: Any
) -> tuple[Graph, Node]:
    """One node over these arrays."""
    b = GraphBuilder("test")
    names = {}
    for name, array in arrays.items():
        if name in constants:
            names[name] = b.constant(array, name)
        else:
            names[name] = b.input(name, TensorType("f32", array.shape))
    out = b.add(op, [names[n] if n else "" for n in inputs], **attrs)
    graph = b.finish([out])
    return graph, graph.nodes[-1]


def assert_close(
    run_node: Any, graph: Graph, node: Node, arrays: dict[str, Array], views: Any = None, parts: int = 1
) -> None:
    """Assert that a node is within one rounding per term of the sum of absolute products."""
    values = {**graph.constants, **arrays}
    given = [values[n] if n else None for n in node.inputs]
    (expected,) = evaluate(node, given, wide=True)
    sizes = [None if v is None else np.abs(v) for v in given]
    (bound,) = evaluate(node.with_attrs(act="", act_args=()), sizes, wide=True)
    (computed,) = run_node(node, graph, arrays, views, parts)
    terms = int(np.prod(graph.shape(node.inputs[1])[1:])) if node.op == "conv2d" else graph.shape(node.inputs[0])[-1]
    scale = 1.2 if not node.attr("act") else 3.0
    assert np.all(
        np.abs(computed - expected) <= scale * (terms + 4) * 2.0**-24 * bound + 1e-6 * np.abs(expected) + 1e-30
    )


def assert_conv(
    run_node: Any,
    x: tuple[int, ...],
    w: tuple[int, ...],
    bias: bool = True,
    residual: bool = False,
    constant: bool = True,
    parts: int = 1,
    views: Any = None,
    **attrs: Any,
) -> None:
    rng = np.random.default_rng(sum(x) + sum(w))
    arrays = {"x": rng.standard_normal(x), "w": rng.standard_normal(w), "bias": rng.standard_normal(w[0])}
    stride, dilation = attrs.get("stride", (1, 1)), attrs.get("dilation", (1, 1))
    size = [(x[1 + i] - dilation[i] * (w[1 + i] - 1) - 1) // stride[i] + 1 for i in range(2)]
    arrays["residual"] = rng.standard_normal((x[0], *size, w[0]))
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    inputs = ["x", "w", "bias" if bias else "", "residual" if residual else ""]
    arrays = {name: array for name, array in arrays.items() if name in inputs}
    constants = {"w", "bias"} & set(arrays) if constant else set[str]()
    graph, node = graph_of("conv2d", arrays, constants, inputs, **{"pads": (0, 0, 0, 0), **attrs})
    seen = views(graph, node) if views else None
    assert_close(run_node, graph, node, {n: a for n, a in arrays.items() if n not in constants}, seen, parts)


@pytest.mark.parametrize("width", [1, 2, 5, 6, 7, 13, 29])
def test_widths_around_tiles(run_emitted: Any, width: int) -> None:
    assert_conv(run_emitted, (1, 5, width + 2, 4), (18, 3, 3, 4))


@pytest.mark.parametrize("channels", [1, 3, 8, 9, 15, 16, 17, 24, 33, 40])
def test_channels_around_vectors(run_emitted: Any, channels: int) -> None:
    assert_conv(run_emitted, (1, 4, 9, 5), (channels, 1, 1, 5), parts=2)
    assert_conv(run_emitted, (1, 1, 1, 70), (channels, 1, 1, 70), parts=3)  # by channels


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "x, w, more",
    [
        ((1, 11, 9, 3), (10, 7, 7, 3), {"stride": (2, 2)}),
        ((2, 9, 9, 6), (12, 3, 3, 3), {"groups": 2, "parts": 3}),
        ((1, 9, 9, 6), (6, 3, 3, 1), {"groups": 6}),
        ((1, 12, 12, 5), (20, 3, 3, 5), {"dilation": (2, 3)}),
        ((3, 7, 7, 40), (130, 1, 1, 40), {"residual": True, "act": "relu", "parts": 4}),
        ((1, 14, 14, 32), (48, 1, 1, 32), {"act": "clip", "act_args": (0.0, 6.0), "parts": 5}),
        ((1, 3, 3, 64), (200, 3, 3, 64), {"act": "hard_swish", "parts": 7}),
        ((1, 2, 2, 64), (96, 1, 1, 32), {"groups": 2, "parts": 5}),
        ((1, 6, 6, 4), (8, 1, 3, 4), {"bias": False, "residual": True}),
        ((1, 6, 6, 4), (19, 3, 1, 4), {"constant": False, "act": "sigmoid"}),
        ((1, 8, 8, 3), (6, 3, 3, 1), {"groups": 3, "constant": False}),
        ((1, 29, 31, 2), (3, 1, 1, 2), {"stride": (3, 2)}),
        ((1, 1, 1, 3000), (70, 1, 1, 3000), {"parts": 3}),
        ((1, 1, 67, 8), (16, 1, 1, 8), {}),
    ],
)
def test_convolutions_of_every_form_agree_with_the_definition(
    run_node: Any, x: tuple[int, ...], w: tuple[int, ...], more: dict[str, Any]
) -> None:
    assert_conv(run_node, x, w, **more)


@pytest.mark.spread
@pytest.mark.parametrize("width", [1, 2, 7, 8, 9, 17])
@pytest.mark.parametrize("channels, kernel, stride", [(2, 3, 1), (8, 3, 2), (9, 5, 1), (24, 3, 1), (35, 2, 3)])
def test_depthwise(run_node: Any, width: int, channels: int, kernel: int, stride: int) -> None:
    side = (width - 1) * stride + kernel
    act: dict[str, Any] = {"act": "clip", "act_args": (0.0, 6.0)} if width > 2 else {}
    assert_conv(
        run_node,
        (2, side + 1, side, channels),
        (channels, kernel, kernel, 1),
        groups=channels,
        stride=(stride, stride),
        residual=width == 7,
        parts=3,
        **act,
    )


@pytest.mark.parametrize(
    "channels, kernel, stride, width",
    [
        (65, 3, 1, 8),
        (92, 3, 2, 5),
        (103, 5, 1, 11),
        *(pytest.param(*case, marks=pytest.mark.long) for case in ((80, 5, 2, 6), (72, 7, 1, 3), (256, 3, 1, 8))),
    ],
)
def test_depthwise_by_lines_of_channels(run_node: Any, channels: int, kernel: int, stride: int, width: int) -> None:
    """More channels than are taken row by row; more rows than a block has, of two images, from any row to any other."""
    high, wide = (14 - 1) * stride + kernel, (width - 1) * stride + kernel
    assert_conv(
        run_node,
        (2, high, wide, channels),
        (channels, kernel, kernel, 1),
        groups=channels,
        stride=(stride, stride),
        residual=width == 8,
        bias=width != 5,
        act="relu",
        parts=3,
    )


@pytest.mark.parametrize("channels", [13, 77])
def test_depthwise_with_dilation_in_a_wider_buffer(run_node: Any, channels: int) -> None:
    def views(graph: Graph, node: Node) -> dict[str, View]:
        n, h, w, c = graph.shape(node.inputs[0])
        return {node.inputs[0]: View("f32", (n, h, w, c), (h * w * 90, w * 90, 90, 1))}

    assert_conv(run_node, (1, 9, 9, channels), (channels, 3, 3, 1), groups=channels, dilation=(2, 3), views=views)


def depthwise_14x14(channels: int, kernel: int) -> Depthwise:
    """Return a square depthwise convolution of stride 1 whose output has 14 x 14 pixels."""
    x, out = (dense_view(TensorType("f32", (1, side, side, channels))) for side in (13 + kernel, 14))
    return Depthwise(x, out, None, (kernel, kernel), (1, 1), (1, 1), False, "none", ())


@pytest.mark.parametrize(
    ("channels", "kernel", "machine", "expected"),
    [
        (512, 3, X86, True),
        (256, 3, X86, True),
        (128, 3, X86, False),
        (528, 3, X86, False),
        (1024, 5, X86, False),
        (512, 3, LITTLE, False),
    ],
)
def test_rows_come_one_by_one_where_pixels_share_the_sets_of_level_1(
    channels: int, kernel: int, machine: Machine, expected: bool
) -> None:
    assert is_crowded(depthwise_14x14(channels, kernel), machine) == expected


@pytest.mark.parametrize(
    ("channels", "kernel", "machine", "expected"),
    [
        (512, 3, LITTLE, True),
        (256, 3, LITTLE, True),
        (128, 3, LITTLE, False),
        (1152, 3, LITTLE, False),
        (128, 5, LITTLE, True),
        (512, 3, BIG, False),
        (1024, 3, BIG, True),
        (96, 3, X86, True),
    ],
)
def test_a_tile_has_whole_lines_of_channels_where_pixels_share_the_sets_of_level_1(
    channels: int, kernel: int, machine: Machine, expected: bool
) -> None:
    spec = depthwise_14x14(channels, kernel)
    assert reads_whole_lines(spec, machine) == expected
    pixels, vectors = tile_of(spec, machine)
    assert vectors == (LINE_CHANNELS // (machine.vector_bytes // 4) if expected else 1)
    assert pixels * vectors + kernel + 1 <= machine.vector_registers


@pytest.mark.parametrize(
    ("channels", "side", "expected"), [(1152, 7, True), (192, 12, True), (480, 14, False), (144, 28, False)]
)
def test_a_tile_has_whole_lines_where_rows_of_pixels_fall_into_the_same_sets(
    channels: int, side: int, expected: bool
) -> None:
    """5x5 filters on an in-order core, simulated: 0.40 and 0.59 of the time with whole lines, and 1.08 twice."""
    x, out = (dense_view(TensorType("f32", (1, n, n, channels))) for n in (side + 4, side))
    spec = Depthwise(x, out, None, (5, 5), (1, 1), (1, 1), False, "none", ())
    assert reads_whole_lines(spec, LITTLE) == expected


@pytest.mark.parametrize(
    ("channels", "machine", "expected"),
    [(64, X86, False), (128, X86, True), (512, X86, False), (64, LITTLE, True), (512, LITTLE, True), (512, BIG, True)],
)
def test_inputs_of_the_next_line_of_channels_are_prefetched(channels: int, machine: Machine, expected: bool) -> None:
    module = ir.Module()
    emit_depthwise(module, replace(depthwise_14x14(channels, 3), act=""), machine)
    assert ("llvm.prefetch" in str(module)) == expected


@pytest.mark.parametrize("channels", [3, 21, 48])
def test_whole_lines_of_channels_of_a_wider_buffer(channels: int) -> None:
    """Tiles of NEON run here; the last line has fewer channels, the last vector fewer lanes."""

    def views(graph: Graph, node: Node) -> dict[str, View]:
        n, h, w, c = graph.shape(node.inputs[0])
        return {node.inputs[0]: View("f32", (n, h, w, c), (h * w * 512, w * 512, 512, 1))}

    host = host_machines()[0]
    machine = replace(host, vector_bytes=16, vector_registers=32, arch="aarch64", in_order=True)
    assert_conv(
        lambda *args: run_node_on(machine, *args),
        (1, 7, 12, channels),
        (channels, 3, 3, 1),
        groups=channels,
        residual=True,
        act="relu",
        views=views,
        parts=2,
    )


def test_depthwise_weights_are_packed_by_lines_of_channels() -> None:
    weights = np.arange(18 * 6, dtype=np.float32).reshape(18, 2, 3, 1)
    packed = pack_depthwise(weights)
    assert packed.shape == (2, 6, 16)
    assert packed[1, 4, 1] == weights[17, 1, 1, 0] and not packed[1, :, 2:].any()


@pytest.mark.sample(1)
def test_tiles_that_cross_rows(run_node: Any) -> None:
    """Maps too narrow for whole tiles, whose output channels are shared out."""

    def views(graph: Graph, node: Node) -> dict[str, View]:
        n, h, w, c = graph.shape(node.inputs[0])
        out = graph.shape(node.output)
        lines = View("f32", out, (out[1] * 700, 700, out[3] + 5, 1))
        wide = View("f32", (n, h, w, c), (h * 900, 900, c + 3, 1))
        return {node.inputs[0]: wide, node.output: lines, node.inputs[3]: lines}

    assert_conv(run_node, (1, 5, 9, 8), (70, 3, 3, 8), residual=True, act="relu", views=views, parts=2)
    assert_conv(run_node, (2, 9, 15, 64), (132, 3, 3, 64), stride=(2, 2), parts=3)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "x, w, more",
    [
        ((1, 9, 11, 5), (37, 3, 3, 5), {"stride": (1, 2), "act": "relu"}),
        pytest.param((1, 6, 31, 23), (20, 1, 1, 23), {"act": "sigmoid"}, marks=pytest.mark.long),
        ((1, 5, 9, 8), (70, 3, 3, 8), {}),  # by channels
        pytest.param((2, 7, 7, 8), (12, 3, 3, 4), {"groups": 2, "dilation": (2, 1)}, marks=pytest.mark.long),
        ((1, 7, 19, 21), (21, 3, 3, 1), {"groups": 21}),
        ((1, 5, 12, 256), (256, 3, 3, 1), {"groups": 256}),  # pixels share the sets of level 1
        pytest.param((1, 9, 17, 512), (512, 5, 5, 1), {"groups": 512, "stride": (2, 2)}, marks=pytest.mark.long),
        pytest.param((1, 7, 19, 21), (42, 3, 3, 1), {"groups": 21}, marks=pytest.mark.long),
        pytest.param((1, 1, 1, 301), (75, 1, 1, 301), {"act": "tanh"}, marks=pytest.mark.long),
    ],
)
def test_the_same_bytes_on_every_machine(
    x: tuple[int, ...], w: tuple[int, ...], more: dict[str, Any], thorough: bool
) -> None:
    """Tiles and vectors of all kinds of machines, that of NEON too, run here."""
    rng = np.random.default_rng(sum(x) + sum(w))
    arrays = {n: rng.standard_normal(s).astype(np.float32) for n, s in (("x", x), ("w", w), ("bias", w[:1]))}
    graph, node = graph_of("conv2d", arrays, {"w", "bias"}, list(arrays), **{"pads": (0, 0, 0, 0), **more})
    host = host_machines()[0]
    shapes = [(host.vector_bytes, host.vector_registers, host.arch), (64, 32, "x86_64"), (16, 32, "aarch64")]
    shapes += [(16, 16, "x86_64")]
    outputs = {
        run_node_on(
            replace(host, vector_bytes=size, vector_registers=registers, arch=arch, in_order=size == 16),
            node,
            graph,
            {"x": arrays["x"]},
            parts=1 + number,
            packing=Packing(16),
            optimised=thorough or not number,
        )[0].tobytes()
        for number, (size, registers, arch) in enumerate(shapes)
    }
    assert len(outputs) == 1


@pytest.mark.parametrize(("op", "channels"), [("conv2d", 133), ("matmul", 128), ("matmul", 127)])
@pytest.mark.parametrize("kind", [X86, LITTLE])
def test_products_of_a_pixel_have_the_same_bytes_in_wide_panels(op: str, channels: int, kind: Machine) -> None:
    """Also with a last panel that is not full; fewer channels than threads can share stay in narrow panels."""
    rng, host = np.random.default_rng(channels), host_machines()[0]
    shapes = ((1, 1, 1, 70), (channels, 1, 1, 70)) if op == "conv2d" else ((1, 70), (70, channels))
    arrays = {n: rng.standard_normal(s).astype(np.float32) for n, s in zip(("x", "w"), shapes, strict=True)}
    arrays["bias"] = rng.standard_normal(channels).astype(np.float32)
    attrs: dict[str, Any] = {"pads": (0, 0, 0, 0)} if op == "conv2d" else {}
    graph, node = graph_of(op, arrays, {"w", "bias"}, list(arrays), act="relu", **attrs)
    machine = replace(host, vector_bytes=kind.vector_bytes, vector_registers=kind.vector_registers, arch=kind.arch)
    packings = Packing(8), Packing(8, pixel_lanes=32)

    narrow, wide = (
        run_node_on(machine, node, graph, {"x": arrays["x"]}, parts=3, packing=packing)[0].tobytes()
        for packing in packings
    )

    assert wide == narrow
    (step,) = lower(node, graph, {name: dense_view(kind) for name, kind in graph.types.items()}, packings[1])
    assert isinstance(step.spec, Conv2d) and step.spec.lanes == (8 if channels < 128 else 32)


def test_inside_other_buffers(run_node: Any) -> None:
    """The input within a padded buffer, the output within a concatenation, the residual strided too."""

    def views(graph: Graph, node: Node) -> dict[str, View]:
        x, out = graph.shape(node.inputs[0]), graph.shape(node.output)
        wide = View("f32", x, (900 * x[3], 12 * x[3], x[3], 1))
        part = View("f32", out, (out[1] * out[2] * 50, out[2] * 50, 50, 1))
        lines = View("f32", out, (out[1] * 400, 400, out[3], 1))
        return {node.inputs[0]: wide, node.output: part, node.inputs[3]: lines}

    assert_conv(run_node, (2, 8, 9, 7), (18, 3, 3, 7), residual=True, parts=3, views=views)
    assert_conv(run_node, (2, 8, 9, 7), (18, 1, 1, 7), residual=True, parts=2, views=views)


def test_pixels_inside_a_concatenation(run_node: Any) -> None:
    def views(graph: Graph, node: Node) -> dict[str, View]:
        n, h, w, c = graph.shape(node.inputs[0])
        return {node.inputs[0]: View("f32", (n, h, w, c), (h * w * 30, w * 30, 30, 1))}

    assert_conv(run_node, (1, 8, 9, 7), (17, 3, 3, 7), views=views)
    assert_conv(run_node, (2, 8, 10, 7), (17, 1, 1, 7), views=views, parts=2)


@settings(max_examples=examples(12, 3))
@given(st.data())
def test_convolutions_of_any_shape_agree_with_the_definition(data: st.DataObject) -> None:
    machine = host_machines()[-1]

    def pick(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    groups, kernel, stride, dilation = (
        pick(1, 3),
        (pick(1, 4), pick(1, 4)),
        (pick(1, 3), pick(1, 3)),
        (pick(1, 2), pick(1, 2)),
    )
    in_ch, out_ch = pick(1, 9), pick(1, 35)
    size = [dilation[i] * (kernel[i] - 1) + pick(1, 15) for i in range(2)]
    assert_conv(
        lambda *args: run_node_on(machine, *args),
        (pick(1, 2), *size, in_ch * groups),
        (out_ch * groups, *kernel, in_ch),
        residual=data.draw(st.booleans()),
        groups=groups,
        stride=stride,
        dilation=dilation,
        parts=pick(1, 4),
    )


def assert_product(
    run_node: Any, a: tuple[int, ...], right: tuple[int, ...], constant: bool, parts: int = 1, **attrs: Any
) -> None:
    rng = np.random.default_rng(len(a) + sum(right))
    arrays = {"a": rng.standard_normal(a).astype(np.float32), "b": rng.standard_normal(right).astype(np.float32)}
    inputs = ["a", "b"]
    if attrs.pop("bias", False):
        arrays["c"] = rng.standard_normal(right[-2] if attrs.get("transpose_b") else right[-1]).astype(np.float32)
        inputs.append("c")
    graph, node = graph_of("matmul", arrays, {"b", "c"} & set(arrays) if constant else set(), inputs, **attrs)
    assert_close(run_node, graph, node, {n: v for n, v in arrays.items() if n in graph.inputs}, None, parts)


@pytest.mark.parametrize(
    "a, right, constant, more",
    [
        ((5, 12), (12, 20), True, {"bias": True}),
        ((1, 512), (300, 512), True, {"transpose_b": True, "parts": 3, "bias": True}),
        ((2, 3, 50, 12), (12, 20), True, {"parts": 3, "act": "relu"}),
        ((5, 12), (12, 20), False, {"bias": True}),
        ((3, 50, 12), (3, 12, 21), False, {"parts": 4}),
        ((2, 1, 7, 5), (4, 5, 9), False, {"parts": 3}),
        ((2, 7, 5), (2, 9, 5), False, {"transpose_b": True}),
        ((3, 2, 12), (3, 12, 7), True, {}),
        ((4, 12), (12, 1), False, {"act": "gelu", "act_args": (0.0,)}),
    ],
)
def test_products(
    run_node: Any, a: tuple[int, ...], right: tuple[int, ...], constant: bool, more: dict[str, Any]
) -> None:
    assert_product(run_node, a, right, constant, **more)


def test_512(run_node: Any) -> None:
    assert_product(run_node, (512, 96), (96, 512), True, parts=3)
