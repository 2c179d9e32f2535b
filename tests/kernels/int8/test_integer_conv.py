"""Integer convolutions and products, with zero points from the run: exact sums, the same floats on every machine."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Graph, Node, type_of
from mavcg.graph.ops import infer, make_node
from mavcg.graph.reference import evaluate
from mavcg.kernels.int8.integer_conv import eight_bit_parts
from mavcg.kernels.registry import lower
from mavcg.specs.kernel import Packing, View, dense_view
from tests.conftest import examples
from tests.kernels.conftest import host_machines, run_node_on

Array = NDArray[Any]

ENDS = ("bias", "multiplier", "shift", "residual")


def numbers(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    """All of a type's numbers, its ends more often than others."""
    info = np.iinfo(DTYPES[dtype])
    ends = rng.choice([info.min, info.max], shape)
    return np.where(rng.random(shape) < 0.1, ends, rng.integers(info.min, info.max + 1, shape)).astype(DTYPES[dtype])


def weights_of(rng: np.random.Generator, shape: tuple[int, ...], kind: str, axis: int = 0) -> Array:
    """Differences of 8-bit weights from their zero points, an output channel along the axis.

    kind: "i8" around 0, "u8" around one zero point, "channels" around one each, "small" within i16's pairs.
    """
    if kind in ("i8", "small"):
        w = numbers(rng, "i8", shape).astype(np.int16)
        return w if kind == "i8" else w // 4
    zeros = rng.integers(0, 256, shape[axis] if kind == "channels" else 1).astype(np.int16)
    return numbers(rng, "u8", shape).astype(np.int16) - zeros.reshape(
        [-1 if i == axis else 1 for i in range(len(shape))]
    )


def integer_inputs(
    op: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    dtype: str,
    kind: str,
    given: tuple[str, ...],
    zero: int | None,
    **attrs: Any,
) -> tuple[list[Array | None], dict[str, Any]]:
    """Inputs of an iconv2d or imatmul node, and its attributes. given: which of ENDS there are; zero: None for any."""
    rng = np.random.default_rng(sum(x) + 7 * sum(w))
    info = np.iinfo(DTYPES[dtype])
    point = int(rng.integers(info.min, info.max + 1)) if zero is None else zero
    axis = 0 if op == "iconv2d" or attrs.get("transpose_b") else 1
    channels = w[axis]
    inputs: list[Array | None] = [
        numbers(rng, dtype, x),
        weights_of(rng, w, kind, axis),
        np.asarray(point, DTYPES[dtype]),
        rng.integers(-50000, 50000, channels).astype(np.int32) if "bias" in given else None,
        rng.uniform(1e-4, 2e-3, channels if len(x) % 2 else ()).astype(np.float32) if "multiplier" in given else None,
        rng.normal(size=channels).astype(np.float32) if "shift" in given else None,
    ]
    if "multiplier" in given:
        inputs[4] = np.asarray(inputs[4], np.float32)
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(inputs)]
    types = {n: type_of(a) for n, a in zip(names, inputs, strict=True) if n and a is not None}
    (result,) = infer(make_node(op, names, ("y",), **attrs), types, {})
    residual = rng.normal(size=result.shape).astype(np.float32) if "residual" in given else None
    return [*inputs, residual], attrs


def assert_integer(
    assert_node: Any,
    op: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    dtype: str = "u8",
    kind: str = "i8",
    given: tuple[str, ...] = (),
    zero: int | None = None,
    views: Any = None,
    **attrs: Any,
) -> None:
    inputs, attrs = integer_inputs(op, x, w, dtype, kind, given, zero, **attrs)
    results = assert_node(op, inputs, constants=(1,), views=views, compare=False, **attrs)
    np.testing.assert_array_equal(results[0], in_single_steps(op, inputs, attrs))


def in_single_steps(op: str, inputs: list[Array | None], attrs: dict[str, Any]) -> Array:
    """The sums by the definition, then one operation of f32 after the other."""
    plain = {name: value for name, value in attrs.items() if name != "act"}
    node = make_node(op, ("x", "w", "zero", "b" if inputs[3] is not None else ""), ("y",), **plain)
    (sums,) = evaluate(node, [*inputs[:4], None, None, None])
    assert sums.dtype == np.int32
    if inputs[4] is None:
        return sums
    real: Array = sums.astype(np.float32) * inputs[4]
    for added in inputs[5:]:
        real = real if added is None else real + added
    assert real.dtype == np.float32
    return np.maximum(real, np.float32(0)) if attrs.get("act") else real


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", ["i8", "u8", "channels", "small"])
@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("width", [1, 13])
def test_widths_and_kinds_of_weights(assert_node: Any, kind: str, dtype: str, width: int) -> None:
    assert_integer(assert_node, "iconv2d", (1, 4, width + 2, 4), (18, 3, 3, 4), dtype, kind)


@pytest.mark.sample(4)
@pytest.mark.parametrize("channels", [1, 8, 9, 17, 40])
@pytest.mark.parametrize("kind", ["i8", "channels"])
def test_channels_around_vectors(assert_node: Any, channels: int, kind: str) -> None:
    given = ("bias", "multiplier", "shift")
    assert_integer(assert_node, "iconv2d", (1, 4, 5, 5), (channels, 1, 1, 5), kind=kind, given=given)
    assert_integer(assert_node, "iconv2d", (1, 1, 1, 70), (channels * 3, 1, 1, 70), "i8", kind)  # by channels


@pytest.mark.sample(5)
@pytest.mark.parametrize("terms", [1, 2, 3, 4, 5, 7, 8, 35])
@pytest.mark.parametrize("kind", ["i8", "u8"])
def test_sums_of_every_length(assert_node: Any, terms: int, kind: str) -> None:
    assert_integer(assert_node, "iconv2d", (1, 2, 3, terms), (9, 1, 1, terms), "u8" if terms % 2 else "i8", kind)


@pytest.mark.parametrize("zero", [0, 255])
def test_the_largest_products_do_not_saturate(assert_node: Any, zero: int) -> None:
    """Pairs of 255 * 127 and 255 * -128 leave i16."""
    x = np.full((1, 1, 13, 70), 255 - zero, np.uint8)
    weights = np.where(np.arange(18) % 2, 127, -128)[:, None, None, None] * np.ones((18, 1, 1, 70), np.int16)
    inputs = [x, weights.astype(np.int16), np.asarray(zero, np.uint8), None, None, None, None]
    assert_node("iconv2d", inputs, constants=(1,))


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "x, w, more",
    [
        ((1, 11, 9, 3), (10, 7, 7, 3), {"stride": (2, 2), "kind": "u8"}),
        ((2, 9, 9, 6), (12, 3, 3, 3), {"groups": 2, "kind": "channels"}),
        ((1, 6, 6, 24), (72, 3, 3, 8), {"groups": 3, "dtype": "i8", "given": ENDS}),
        ((1, 12, 12, 5), (20, 3, 3, 5), {"dilation": (2, 3), "given": ("multiplier",), "act": "relu"}),
        ((3, 7, 7, 40), (130, 1, 1, 40), {"kind": "u8", "given": ENDS}),
        ((1, 3, 3, 64), (200, 3, 3, 64), {"dtype": "i8", "kind": "u8"}),
        ((1, 29, 31, 2), (3, 1, 1, 2), {"stride": (3, 2), "given": ("bias",)}),
        ((1, 1, 67, 8), (16, 1, 1, 8), {"given": ("multiplier", "residual")}),
        ((1, 5, 13, 24), (24, 3, 3, 1), {"groups": 24}),
        ((1, 5, 13, 24), (24, 3, 3, 1), {"groups": 24, "kind": "channels", "dtype": "i8", "given": ENDS}),
        ((2, 6, 6, 35), (35, 2, 3, 1), {"groups": 35, "stride": (1, 2), "kind": "u8", "given": ("multiplier",)}),
        ((1, 9, 9, 70), (70, 3, 3, 1), {"groups": 70, "dilation": (2, 1), "kind": "small", "given": ("bias",)}),
    ],
)
def test_convolutions_of_every_form_agree_with_the_definition(
    assert_node: Any, x: tuple[int, ...], w: tuple[int, ...], more: dict[str, Any]
) -> None:
    assert_integer(assert_node, "iconv2d", x, w, **more)


@pytest.mark.sample(5)
@pytest.mark.parametrize("kind", ["i8", "u8", "channels"])
@pytest.mark.parametrize(("x", "w"), [((7, 33), (33, 40)), ((2, 3, 5, 8), (8, 17)), ((1, 1), (1, 1)), ((5, 1), (1, 9))])
def test_products(assert_node: Any, x: tuple[int, ...], w: tuple[int, ...], kind: str) -> None:
    assert_integer(assert_node, "imatmul", x, w, kind=kind)
    assert_integer(assert_node, "imatmul", x, w[::-1], "i8", kind, ("bias", "multiplier", "shift"), transpose_b=True)


@pytest.mark.parametrize("groups", [1, 36])
def test_inside_other_buffers(assert_node: Any, groups: int) -> None:
    """The input within a padded buffer, the output and the residual within concatenations."""
    w = (36, 3, 3, 36 // groups)
    views = {
        "x0": View("u8", (2, 8, 9, 36), (9000, 500, 37, 1)),
        "x6": View("f32", (2, 6, 7, 36), (2100, 350, 50, 1)),
        "y": View("f32", (2, 6, 7, 36), (3100, 400, 40, 1)),
    }
    assert_integer(
        assert_node, "iconv2d", (2, 8, 9, 36), w, "u8", "u8", ("multiplier", "residual"), None, views, groups=groups
    )


@settings(max_examples=examples(30, 7))
@given(st.data())
def test_any_shapes_zero_points_and_parts(data: st.DataObject) -> None:
    """Compared with sums in 64 bits by NumPy alone."""

    def pick(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    groups, in_ch, out_ch = pick(1, 3), pick(1, 9), pick(1, 20)
    kernel, stride, dilation = (pick(1, 3), pick(1, 3)), (pick(1, 2), pick(1, 2)), (pick(1, 2), pick(1, 2))
    spans = [dilation[i] * (kernel[i] - 1) + 1 for i in (0, 1)]
    dtype, kind = data.draw(st.sampled_from(["i8", "u8"])), data.draw(st.sampled_from(["i8", "u8", "channels"]))
    x_shape = (pick(1, 2), spans[0] + pick(0, 3), spans[1] + pick(0, 20), groups * in_ch)
    info, rng = np.iinfo(DTYPES[dtype]), np.random.default_rng(pick(0, 999))
    zero = data.draw(st.sampled_from([info.min, info.max, 0, 3]))
    x = numbers(rng, dtype, x_shape)
    w = weights_of(rng, (groups * out_ch, *kernel, in_ch), kind)
    node = make_node(
        "iconv2d", ("x", "w", "z"), ("y",), stride=stride, dilation=dilation, pads=(0, 0, 0, 0), groups=groups
    )
    arrays = {"x": x, "w": w, "z": np.asarray(zero, DTYPES[dtype])}
    types = {name: type_of(array) for name, array in arrays.items()}
    (types["y"],) = infer(node, types, {"w": w})
    graph = Graph("test", ("x", "z"), ("y",), (node,), types, {"w": w})
    _, height, width, _ = types["y"].shape
    expected = np.zeros(types["y"].shape, np.int64)
    centred = (x.astype(np.int64) - zero).reshape(*x_shape[:3], groups, in_ch)
    filters = w.astype(np.int64).reshape(groups, out_ch, *kernel, in_ch)
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            top, left = i * dilation[0], j * dilation[1]
            seen = centred[:, top :: stride[0], left :: stride[1]][:, :height, :width]
            expected += np.einsum("nhwgc,goc->nhwgo", seen, filters[:, :, i, j]).reshape(expected.shape)
    for machine in host_machines():
        inputs = {"x": x, "z": arrays["z"]}
        (got,) = run_node_on(machine, node, graph, inputs, parts=pick(1, 3), packing=Packing(16), optimised=False)
        np.testing.assert_array_equal(got, expected)


@given(st.integers(0, 255), st.lists(st.integers(0, 255), min_size=1, max_size=6))
def test_weights_as_eight_bits_and_an_offset(zero: int, values: list[int]) -> None:
    weights = np.array([values], np.int16) - np.int16(zero)
    parts, offsets = eight_bit_parts(weights)
    np.testing.assert_array_equal(parts.astype(int) + offsets[:, None], weights)
    assert offsets[0] == 0 or not ((weights >= -128) & (weights <= 127)).all()


def node_of(weights: Array, **attrs: Any) -> tuple[Node, Graph]:
    x, zero = np.zeros((1, 4, 4, weights.shape[3]), np.uint8), np.uint8(3)
    node = make_node("iconv2d", ("x", "w", "z"), ("y",), origin="conv", **attrs)
    types = {name: type_of(np.asarray(a)) for name, a in (("x", x), ("w", weights), ("z", zero))}
    (types["y"],) = infer(node, types, {})
    return node, Graph("test", ("x", "z"), ("y",), (node,), types, {"w": weights})


@pytest.mark.parametrize(
    ("weights", "attrs", "message"),
    [
        (np.array([0, 300], np.int16).reshape(1, 1, 2, 1), {}, "differ by more than 255"),
        (np.ones((1, 1, 2, 1), np.int16), {"pads": (1, 0, 0, 0)}, "padding must be a node of its own"),
        (np.ones((0, 1, 2, 1), np.int16), {}, "its weights have no elements"),
    ],
)
def test_what_is_not_supported_is_refused_with_a_reason(weights: Array, attrs: dict[str, Any], message: str) -> None:
    node, graph = node_of(weights, **attrs)
    views = {name: dense_view(kind) for name, kind in graph.types.items()}
    with pytest.raises(MavcgError, match=message):
        lower(node, graph, views, Packing(16))
