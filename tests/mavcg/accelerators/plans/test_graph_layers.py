"""Layers of a graph: what six loops say of each node, against the nodes' own definitions."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mavcg.accelerators.plans.graph_layers import layers_of, phases
from mavcg.cost.layer import ConvLayer, ItemBytes
from mavcg.errors import MavcgError
from mavcg.graph import Array, Graph, Node, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.ops import make_node
from mavcg.graph.reference import evaluate
from mavcg.passes.graph.pipeline import optimise


def _numbers(*shape: int, dtype: str = "f4") -> Array:
    return np.random.default_rng(0).integers(-4, 5, shape).astype(dtype)


def _one(builder: GraphBuilder, result: str, fully_connected: bool = True) -> ConvLayer:
    (layer,) = layers_of(builder.finish((result,)), fully_connected)
    return layer


def _image(*shape: int, dtype: str = "f32") -> tuple[GraphBuilder, str]:
    builder = GraphBuilder("g")
    return builder, builder.input("x", TensorType(dtype, shape))


def test_a_convolution_keeps_all_that_its_node_says() -> None:
    builder, x = _image(1, 20, 31, 6)
    w = builder.constant(_numbers(8, 3, 5, 3))
    y = builder.add("conv2d", (x, w), "the stem", groups=2, stride=(2, 3), dilation=(2, 1), pads=(1, 2, 3, 4))
    assert _one(builder, y) == ConvLayer(
        "the stem",
        oc=4,
        ic=3,
        oh=10,
        ow=11,
        kh=3,
        kw=5,
        ih=20,
        iw=31,
        stride=(2, 3),
        pads=(1, 2, 3, 4),
        dilation=(2, 1),
        groups=2,
        items=ItemBytes(4, 4, 4, 4),
    )


def test_a_layers_rows_and_columns_are_what_its_outputs_read() -> None:
    builder, x = _image(1, 20, 31, 6)
    w = builder.constant(_numbers(8, 3, 5, 6))
    layer = _one(builder, builder.add("conv2d", (x, w), stride=(2, 3), dilation=(2, 1), pads=(1, 2, 3, 4)))
    assert layer.input_rows(layer.oh) <= layer.ih + layer.pads[0] + layer.pads[2]
    assert layer.input_rows(layer.oh + 1) > layer.ih + layer.pads[0] + layer.pads[2]


def _padded(value: float, channels: int = 0, mode: str = "constant") -> ConvLayer:
    builder, x = _image(1, 8, 8, 3)
    padded = builder.add("pad", (x,), before=(0, 1, 2, 0), after=(0, 0, 1, channels), mode=mode, value=value)
    w = builder.constant(_numbers(4, 3, 3, 3 + channels))
    return _one(builder, builder.add("conv2d", (padded, w), pads=(1, 1, 1, 1)))


def test_a_pad_before_counts_as_the_layers_own() -> None:
    layer = _padded(0.0)
    assert (layer.ih, layer.iw, layer.pads) == (8, 8, (2, 3, 1, 2))


@pytest.mark.parametrize(("value", "channels", "mode"), [(1.0, 0, "constant"), (0.0, 1, "constant"), (0.0, 0, "edge")])
def test_a_pad_that_a_convolution_cannot_do_stays_in_the_input(value: float, channels: int, mode: str) -> None:
    layer = _padded(value, channels, mode)
    assert (layer.ih, layer.iw, layer.pads) == (9, 11, (1, 1, 1, 1))


def test_the_passes_leave_the_layers_as_they_are() -> None:
    """Explicit padding, folded scales and fused activations change nodes, not layers."""
    builder, x = _image(1, 12, 12, 3)
    y = builder.add("conv2d", (x, builder.constant(_numbers(8, 3, 3, 3))), "first", pads=(1, 1, 1, 1))
    y = builder.add("relu", (builder.add("mul", (y, builder.constant(_numbers(8)))),))
    y = builder.add("conv2d", (y, builder.constant(_numbers(5, 2, 2, 8))), "second", stride=(2, 2), pads=(0, 0, 1, 1))
    graph = builder.finish((y,))
    assert any(node.op == "pad" for node in optimise(graph).nodes)
    assert layers_of(optimise(graph)) == layers_of(graph)


def test_8_bit_layers_have_8_bit_elements_and_4_byte_partial_sums() -> None:
    builder, x = _image(1, 6, 6, 4, dtype="u8")
    padded = builder.add("pad", (x,), before=(0, 1, 1, 0), after=(0, 1, 1, 0), value=7.0)
    w, bias = builder.constant(_numbers(3, 3, 3, 4, dtype="i1")), builder.constant(_numbers(3, dtype="i4"))
    scale = builder.constant(np.ones(3, np.float32))
    result = {"out_zero": 0, "lo": 0, "hi": 255, "to": "u8"}
    y = builder.add("qconv2d", (padded, w, bias, scale), x_zero=7, **result)  # type: ignore[arg-type]
    y = builder.add("reshape", (y,), shape=(1, 108))
    b = builder.constant(_numbers(108, 3, dtype="i1"))
    y = builder.add("qmatmul", (y, b, bias, scale), x_zero=0, **result)  # type: ignore[arg-type]
    conv, dense = layers_of(builder.finish((y,)))
    assert conv.items == dense.items == ItemBytes(1, 1, 1, 4)
    assert (conv.ih, conv.pads, dense.oc, dense.ic, dense.macs) == (6, (1, 1, 1, 1), 3, 108, 324)


def test_partial_sums_of_double_have_eight_bytes() -> None:
    builder, x = _image(1, 4, 4, 2, dtype="f64")
    w = builder.constant(_numbers(2, 1, 1, 2, dtype="f8"))
    assert _one(builder, builder.add("conv2d", (x, w))).items == ItemBytes(8, 8, 8, 8)


@pytest.mark.parametrize("transpose_b", [False, True])
def test_a_fully_connected_layer_is_a_1x1_convolution(transpose_b: bool) -> None:
    builder, x = _image(1, 9)
    w = builder.constant(_numbers(*((5, 9) if transpose_b else (9, 5))))
    layer = _one(builder, builder.add("matmul", (x, w), "fc", transpose_b=transpose_b))
    assert layer == ConvLayer("fc", oc=5, ic=9, oh=1, ow=1, kh=1, kw=1, ih=1, iw=1)


def test_rows_of_a_product_are_rows_of_a_1x1_convolution() -> None:
    builder, x = _image(2, 7, 9)
    layer = _one(builder, builder.add("matmul", (x, builder.constant(_numbers(9, 5)))))
    assert (layer.oc, layer.ic, layer.oh, layer.ow, layer.groups) == (5, 9, 14, 1, 1)


def test_weights_in_front_are_weights_too() -> None:
    builder, x = _image(2, 9, 7)
    layer = _one(builder, builder.add("matmul", (builder.constant(_numbers(5, 9)), x)))
    assert (layer.oc, layer.ic, layer.oh, layer.macs) == (5, 9, 14, 2 * 5 * 9 * 7)


def test_a_matrix_for_each_of_a_batch_is_a_group() -> None:
    builder, x = _image(3, 7, 9)
    layer = _one(builder, builder.add("matmul", (x, builder.constant(_numbers(3, 9, 5)))))
    assert (layer.groups, layer.oc, layer.ic, layer.oh, layer.macs) == (3, 5, 9, 7, 3 * 5 * 9 * 7)


def test_weights_may_come_through_nodes_that_only_carry_them() -> None:
    builder, x = _image(1, 9)
    kept = builder.constant(_numbers(5, 9, dtype="i1"))
    scale, zero = builder.constant(np.float32(0.5)), builder.constant(np.int8(0))
    w = builder.add("transpose", (builder.add("dequantize", (kept, scale, zero), axis=0),), perm=(1, 0))
    layer = _one(builder, builder.add("matmul", (x, w)))
    assert (layer.oc, layer.ic, layer.items) == (5, 9, ItemBytes(4, 4, 4, 4))


def test_a_product_of_two_images_is_no_layer_and_fully_connected_ones_can_be_left_out() -> None:
    builder, x = _image(1, 9, 9)
    both = builder.add("relu", (x,))
    y = builder.add("matmul", (both, both))
    z = builder.add("matmul", (y, builder.constant(_numbers(9, 2))), "fc")
    graph = builder.finish((z,))
    assert [layer.name for layer in layers_of(graph)] == ["fc"]
    assert layers_of(graph, fully_connected=False) == ()


def test_names_are_unique_and_those_of_the_users_file() -> None:
    builder, x = _image(1, 4, 4, 2)
    w = builder.constant(_numbers(2, 1, 1, 2))
    for origin in ("a", "a", "a.2", "", "a"):
        x = builder.add("conv2d", (x, w), origin)
    names = [layer.name for layer in layers_of(builder.finish((x,)))]
    assert names == ["a", "a.2", "a.2.2", "conv2d.3", "a.3"]


def test_a_batch_is_refused_by_node() -> None:
    builder, x = _image(8, 4, 4, 2)
    y = builder.add("conv2d", (x, builder.constant(_numbers(2, 1, 1, 2))), "stem")
    with pytest.raises(MavcgError, match=r"stem.*batch of 8 images.*batch size 1"):
        layers_of(builder.finish((y,)))


def test_layers_without_work_are_left_out() -> None:
    builder, x = _image(0, 9)
    assert layers_of(builder.finish((builder.add("matmul", (x, builder.constant(_numbers(9, 5)))),))) == ()


def _deconvolution(shape: tuple[int, int], kernel: tuple[int, int], groups: int = 1, **attrs: object) -> Graph:
    builder, x = _image(1, *shape, 2 * groups)
    w = builder.constant(_numbers(3 * groups, *kernel, 2))
    return builder.finish((builder.add("conv_transpose2d", (x, w), "up", groups=groups, **attrs),))  # type: ignore[arg-type]


def test_a_transposed_convolution_of_stride_1_is_one_layer() -> None:
    (layer,) = layers_of(_deconvolution((5, 6), (3, 3), pads=(1, 1, 1, 1)))
    assert layer == ConvLayer("up", 3, 2, 5, 6, 3, 3, 5, 6, pads=(1, 1, 1, 1))


def test_one_that_doubles_is_four_layers_of_one_tap() -> None:
    layers = layers_of(_deconvolution((5, 6), (2, 2), groups=2, stride=(2, 2)))
    assert [layer.name for layer in layers] == ["up@0,0", "up@0,1", "up@1,0", "up@1,1"]
    assert {layer.key for layer in layers} == {ConvLayer("", 3, 2, 5, 6, 1, 1, 5, 6, groups=2)}


@given(
    st.integers(1, 6),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 2),
)
def test_the_phases_together_are_the_transposed_convolution(
    length: int, kernel: int, stride: int, dilation: int, before: int, after: int, extra: int
) -> None:
    """Each phase run by the definition of conv2d, its outputs put where they belong, against that of the whole."""
    outputs = (length - 1) * stride + dilation * (kernel - 1) + 1 + extra - before - after
    assume(outputs >= 1)
    x, w = _numbers(1, length, 1, 2), _numbers(3, kernel, 1, 2)
    pads, extras = (before, 0, after, 0), (extra, 0)
    whole = make_node(
        "conv_transpose2d",
        ("x", "w", ""),
        ("y",),
        stride=(stride, 1),
        dilation=(dilation, 1),
        pads=pads,
        output_pads=extras,
    )
    (expected,) = evaluate(whole, (x, w, None))
    computed = np.zeros_like(expected)
    for phase in phases(length, outputs, kernel, stride, dilation, before):
        # A transposed convolution meets its taps in falling order where a convolution meets them in rising order.
        taps = w[:, phase.taps[::-1]]
        part: Node = make_node(
            "conv2d", ("x", "w"), ("y",), dilation=(phase.dilation, 1), pads=(phase.before, 0, phase.after, 0)
        )
        (values,) = evaluate(part, (x[:, phase.start : phase.start + phase.length], taps, None, None))
        assert values.shape[1] == phase.outputs
        computed[:, phase.first :: stride] = values
    np.testing.assert_array_equal(computed, expected)
