"""The NumPy definitions against ONNX Runtime and onnx's own, and against plain loops where neither has the operator."""

import itertools
import math
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from mavcg.errors import MavcgError
from mavcg.graph import Array, Graph, TensorType, type_of
from mavcg.graph.builder import GraphBuilder
from mavcg.ops import OPS, make_node
from mavcg.reference import DEFINITIONS, evaluate, run


def ours(op: str, *arrays: Array | None, wide: bool = False, **attrs: Any) -> Array:
    """One operator's result, as the graph's operator defines it."""
    names = [f"i{i}" if a is not None else "" for i, a in enumerate(arrays)]
    node = make_node(op, names, ["y"], **attrs)
    padded = [*arrays, *[None] * (len(node.inputs) - len(arrays))]
    (result,) = evaluate(node, padded, wide)
    return result


def onnx_model(op: str, arrays: tuple[Array | None, ...], attrs: dict[str, Any], opset: int) -> onnx.ModelProto:
    names = [f"i{i}" if a is not None else "" for i, a in enumerate(arrays)]
    node = onnx.helper.make_node(op, names, ["y"], **attrs)
    inputs = [
        onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(names, arrays, strict=True)
        if a is not None
    ]
    output = onnx.helper.make_empty_tensor_value_info("y")
    graph = onnx.helper.make_graph([node], "g", inputs, [output])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)


def onnx_runtime(op: str, *arrays: Array | None, opset: int = 20, **attrs: Any) -> Array:
    """The same by ONNX Runtime, in f32."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    model = onnx_model(op, arrays, attrs, opset)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {f"i{i}": a for i, a in enumerate(arrays) if a is not None})[0])


def onnx_python(op: str, *arrays: Array | None, opset: int = 20, **attrs: Any) -> Array:
    """The same by onnx.reference, for types that ONNX Runtime has no kernel for."""
    evaluator: Any = ReferenceEvaluator(onnx_model(op, arrays, attrs, opset))
    return np.asarray(evaluator.run(None, {f"i{i}": a for i, a in enumerate(arrays) if a is not None})[0])


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def f32(values: Any) -> Array:
    return np.array(values, np.float32)


def nchw(x: Array) -> Array:
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2))


def nhwc(x: Array) -> Array:
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1))


def close(found: Array, expected: Array, tolerance: float = 1e-5) -> None:
    """Equal shape and type, and equal but for f32's rounding, relative to the largest value."""
    assert type_of(found) == type_of(np.asarray(expected))
    if found.dtype.kind == "f":
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(found[~finite], expected[~finite])
        largest = float(np.abs(expected[finite]).max(initial=1e-3))
        np.testing.assert_allclose(found[finite], expected[finite], rtol=0, atol=tolerance * largest)
    else:
        np.testing.assert_array_equal(found, expected)


def test_half_sums_with_a_bias_of_f32_are_rounded_once() -> None:
    x, w = (normal(1, 4, 5, 3, seed=1).astype(np.float16), normal(6, 3, 3, 3, seed=2).astype(np.float16))
    bias = np.array([1e-5, 2048.5, -3.14159, 0, 1 / 3, 6e4], np.float32)
    added = normal(1, 2, 3, 6, seed=3).astype(np.float16)
    wide = ours("conv2d", x.astype(np.float64), w.astype(np.float64), bias.astype(np.float64), added, wide=True)
    got = ours("conv2d", x, w, bias, added)
    assert got.dtype == np.float16 and wide.dtype == np.float64
    np.testing.assert_array_equal(got, wide.astype(np.float16))
    matrix = ours("matmul", x[0, 0], w[0, 0].T, bias[:3])
    np.testing.assert_array_equal(matrix, (x[0, 0].astype(np.float64) @ w[0, 0].T + bias[:3]).astype(np.float16))


def test_every_operator_is_defined() -> None:
    assert set(DEFINITIONS) == set(OPS) - {"loop_slice", "loop_next", "loop_stack"}  # which run_loop defines


WINDOWS = [  # kernel, stride, dilation, pads
    ((1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    ((3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    ((3, 2), (2, 1), (1, 1), (0, 1, 2, 0)),
    ((2, 3), (2, 3), (3, 2), (1, 2, 0, 1)),
    ((5, 4), (3, 2), (1, 1), (2, 2, 1, 3)),
    ((1, 1), (2, 2), (1, 1), (1, 1, 1, 1)),
    ((9, 8), (1, 1), (1, 1), (0, 0, 0, 0)),
]


@pytest.mark.parametrize(("kernel", "stride", "dilation", "pads"), WINDOWS)
@pytest.mark.parametrize(("groups", "out_ch"), [(1, 5), (2, 6), (4, 4), (4, 8)])
def test_conv2d(kernel: Any, stride: Any, dilation: Any, pads: Any, groups: int, out_ch: int) -> None:
    x, bias = normal(2, 9, 8, 4), normal(out_ch, seed=2)
    w = normal(out_ch, *kernel, 4 // groups, seed=1)
    computed = ours("conv2d", x, w, bias, stride=stride, dilation=dilation, pads=pads, groups=groups)
    expected = onnx_runtime(
        "Conv", nchw(x), nchw(w), bias, strides=stride, dilations=dilation, pads=pads, group=groups, kernel_shape=kernel
    )
    close(computed, nhwc(expected))


@pytest.mark.parametrize("act", [("", ()), ("relu", ()), ("clip", (-0.5, 6)), ("leaky_relu", (0.1,)), ("gelu", (1.0,))])
def test_conv2d_adds_bias_and_residual_before_its_activation(act: tuple[str, tuple[float, ...]]) -> None:
    x, w, bias, residual = normal(1, 4, 4, 3), normal(2, 3, 3, 3), normal(2, seed=3), normal(1, 2, 2, 2, seed=4)
    whole = ours("conv2d", x, w, bias, residual, act=act[0], act_args=act[1], wide=True)
    total = ours("conv2d", x, w, wide=True) + bias + residual
    attrs = dict(zip(OPS[act[0]].attrs, act[1], strict=True)) if act[0] else {}
    if "tanh" in attrs:
        attrs["tanh"] = True
    np.testing.assert_array_equal(whole, ours(act[0], total, wide=True, **attrs) if act[0] else total)


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "pads", "output_pads"),
    [
        ((2, 2), (2, 2), (1, 1), (0, 0, 0, 0), (0, 0)),
        ((3, 3), (2, 2), (1, 1), (1, 1, 1, 1), (1, 1)),
        ((3, 2), (1, 3), (2, 1), (1, 0, 2, 1), (0, 2)),
        ((4, 1), (3, 1), (1, 1), (0, 0, 1, 0), (2, 0)),
        ((1, 1), (3, 2), (1, 1), (0, 0, 0, 0), (0, 0)),
    ],
)
@pytest.mark.parametrize(("groups", "out_ch"), [(1, 3), (2, 6), (4, 4)])
def test_conv_transpose2d(
    kernel: Any, stride: Any, dilation: Any, pads: Any, output_pads: Any, groups: int, out_ch: int
) -> None:
    x, bias = normal(2, 3, 5, 4), normal(out_ch, seed=2)
    w_onnx = normal(4, out_ch // groups, *kernel, seed=1)
    # ONNX has [C, O/groups, KH, KW].
    w = w_onnx.reshape(groups, 4 // groups, out_ch // groups, *kernel).transpose(0, 2, 3, 4, 1)
    computed = ours(
        "conv_transpose2d",
        x,
        w.reshape(out_ch, *kernel, 4 // groups),
        bias,
        stride=stride,
        dilation=dilation,
        pads=pads,
        output_pads=output_pads,
        groups=groups,
    )
    expected = onnx_runtime(
        "ConvTranspose",
        nchw(x),
        w_onnx,
        bias,
        strides=stride,
        dilations=dilation,
        pads=pads,
        output_padding=output_pads,
        group=groups,
    )
    close(computed, nhwc(expected))


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "pads"), [w for w in WINDOWS if w[3] != (1, 1, 1, 1) or w[0] == (3, 3)]
)
def test_pools(kernel: Any, stride: Any, dilation: Any, pads: Any) -> None:
    x = normal(2, 9, 8, 3)
    window: dict[str, Any] = {"kernel": kernel, "stride": stride, "dilation": dilation, "pads": pads}
    theirs: dict[str, Any] = {"kernel_shape": kernel, "strides": stride, "dilations": dilation, "pads": pads}
    if pads != (1, 2, 0, 1):  # ONNX Runtime wants pads smaller than the kernel without its dilation
        close(ours("max_pool2d", x, **window), nhwc(onnx_runtime("MaxPool", nchw(x), **theirs)))
    close(ours("avg_pool2d", x, **window), nhwc(onnx_runtime("AveragePool", nchw(x), **theirs)))
    counted = nhwc(onnx_runtime("AveragePool", nchw(x), count_include_pad=1, **theirs))
    close(ours("avg_pool2d", x, count_pads=pads, **window), counted)


def test_pools_with_uneven_pads_as_ceil_mode_makes_them() -> None:
    x = normal(1, 6, 6, 2)
    window: dict[str, Any] = {"kernel": (3, 3), "stride": (2, 2), "pads": (0, 0, 1, 1)}
    theirs: dict[str, Any] = {"kernel_shape": (3, 3), "strides": (2, 2), "ceil_mode": 1}
    close(ours("max_pool2d", x, **window), nhwc(onnx_runtime("MaxPool", nchw(x), **theirs)))
    close(ours("avg_pool2d", x, **window), nhwc(onnx_runtime("AveragePool", nchw(x), **theirs)))


def test_max_pool2d_of_8_bit_numbers_sees_nothing_outside() -> None:
    x = np.full((1, 2, 2, 1), -128, np.int8)
    assert (ours("max_pool2d", x, kernel=(2, 2), pads=(1, 1, 1, 1)) == -128).all()


@pytest.mark.parametrize(
    ("a", "b"),
    [((3, 4), (4, 5)), ((2, 1, 3, 4), (6, 4, 5)), ((1, 4), (4, 1)), ((2, 3, 4), (2, 4, 5)), ((3, 0), (0, 2))],
)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    left, right = normal(*a), normal(*b, seed=1)
    expected = onnx_runtime("MatMul", left, right)
    close(ours("matmul", left, right), expected)
    close(ours("matmul", left, np.swapaxes(right, -1, -2), transpose_b=True), expected)
    bias, residual = normal(b[-1], seed=2), normal(*expected.shape, seed=3)
    close(ours("matmul", left, right, bias, residual, act="relu"), np.maximum(expected + bias + residual, 0))


def test_matmul_of_whole_numbers_is_exact() -> None:
    a = np.array([[2**40 + 1]], np.int64)
    assert ours("matmul", a, a).tolist() == [[(2**40 + 1) ** 2 % 2**64]]


POINTS = np.array([0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, 1e-6, -1e-6, 3, -3, 7, -7, 20, -20, 90, -90], np.float32)


@pytest.mark.parametrize(
    ("op", "theirs", "attrs"),
    [
        *(
            (name, name.capitalize(), {})
            for name in (
                "relu",
                "sigmoid",
                "tanh",
                "erf",
                "exp",
                "log",
                "sqrt",
                "neg",
                "abs",
                "reciprocal",
                "floor",
                "ceil",
                "round",
                "sign",
                "softplus",
                "softsign",
                "sin",
                "cos",
                "tan",
                "mish",
                "elu",
                "selu",
                "celu",
                "gelu",
            )
        ),
        ("hard_swish", "HardSwish", {}),
        ("leaky_relu", "LeakyRelu", {"alpha": 0.3}),
        ("elu", "Elu", {"alpha": 0.3}),
        ("hard_sigmoid", "HardSigmoid", {"alpha": 0.3, "beta": 0.6}),
        ("hard_sigmoid", "HardSigmoid", {}),
        ("selu", "Selu", {"alpha": 2.0, "gamma": 3.0}),
        ("celu", "Celu", {"alpha": 2.0}),
        ("thresholded_relu", "ThresholdedRelu", {"alpha": 1.5}),
    ],
)
def test_unary(op: str, theirs: str, attrs: dict[str, Any]) -> None:
    x = np.concatenate([POINTS, normal(50) * 3])
    with np.errstate(all="ignore"):
        expected = onnx_runtime(theirs, x, **attrs)
    computed = ours(op, x, **attrs)
    close(computed[: len(x)], expected, 3e-6)


def test_unary_that_onnx_runtime_has_not() -> None:
    x = np.concatenate([POINTS, normal(50) * 3])
    close(ours("silu", x), x * onnx_runtime("Sigmoid", x))
    close(ours("gelu", x, tanh=True), onnx_runtime("Gelu", x, approximate="tanh"))
    assert ours("not", np.array([True, False])).tolist() == [False, True]
    assert ours("relu", np.array([-3, 4], np.int8)).tolist() == [0, 4]
    assert ours("abs", np.array([-3, 4], np.int64)).tolist() == [3, 4]


def test_clip() -> None:
    x = np.array([-np.inf, -2, 0, 3, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(ours("clip", x, lo=-1, hi=2), f32([-1, -1, 0, 2, 2, np.nan]))
    np.testing.assert_array_equal(ours("clip", x), x)
    assert ours("clip", f32([1.5]), lo=3, hi=1).tolist() == [1.0]  # as ONNX: the upper bound wins
    eight = np.array([-128, -1, 0, 127], np.int8)
    assert ours("clip", eight, lo=0, hi=6).tolist() == [0, 0, 0, 6]
    assert ours("clip", eight).tolist() == eight.tolist()
    assert ours("clip", eight, lo=-1000, hi=1000).tolist() == eight.tolist()
    large = np.array([2**62 + 1], np.int64)
    assert ours("clip", large).tolist() == large.tolist()


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "pow"])
def test_binary(op: str) -> None:
    a, b = np.abs(normal(3, 1, 4)) + 0.5, normal(2, 1, seed=1)
    close(ours(op, a, b), onnx_runtime(op.capitalize(), a, b))


@pytest.mark.parametrize(
    ("op", "theirs"),
    [
        ("equal", "Equal"),
        ("less", "Less"),
        ("less_equal", "LessOrEqual"),
        ("greater", "Greater"),
        ("greater_equal", "GreaterOrEqual"),
        ("max", "Max"),
        ("min", "Min"),
    ],
)
def test_comparisons(op: str, theirs: str) -> None:
    a, b = f32([[1], [2], [3]]), f32([1, 2, 4, -1])
    close(ours(op, a, b), onnx_runtime(theirs, a, b))
    close(
        ours(op, a.astype(np.int64), b.astype(np.int64)), onnx_runtime(theirs, a.astype(np.int64), b.astype(np.int64))
    )


@pytest.mark.parametrize("op", ["and", "or", "xor"])
def test_logic(op: str) -> None:
    a, b = np.array([[True], [False]]), np.array([True, False])
    close(ours(op, a, b), onnx_runtime(op.capitalize(), a, b))


@given(st.integers(-128, 127), st.integers(-128, 127).filter(bool))
def test_whole_numbers_divide_as_in_c(a: int, b: int) -> None:
    wide = [np.array(v, np.int32) for v in (a, b)]
    expected = int(math.trunc(a / b))
    assert ours("div", *wide) == expected
    assert ours("mod", *wide, fmod=True) == a - b * expected
    assert ours("mod", *wide) == a % b


@given(st.integers(-3, 3).filter(bool), st.integers(-3, 5))
def test_whole_powers(a: int, b: int) -> None:
    computed = ours("pow", np.array(a, np.int32), np.array(b, np.int32))
    assert computed == math.trunc(float(a) ** b)


@pytest.mark.parametrize("fmod", [False, True])
def test_mod_of_floats(fmod: bool) -> None:
    a, b = f32([5.5, -5.5, 5.5, -5.5]), f32([3, 3, -3, -3])
    assert ours("mod", a, b, fmod=fmod).tolist() == ([2.5, -2.5, 2.5, -2.5] if fmod else [2.5, 0.5, -0.5, -2.5])


def test_prelu_where_cast() -> None:
    x, slope = normal(2, 3, 4), normal(4, seed=1)
    close(ours("prelu", x, slope), onnx_runtime("PRelu", x, slope))
    close(ours("where", x > 0, x, slope), onnx_runtime("Where", x > 0, x, slope))
    values = f32([-2.7, -0.2, 0.0, 0.5, 2.7, 100])
    for to in ("i8", "i16", "i32", "i64", "u8"):
        expected = np.trunc(values[1:] if to == "u8" else values)
        assert ours("cast", values[1:] if to == "u8" else values, to=to).tolist() == expected.tolist()
    assert ours("cast", values, to="bool").tolist() == [True, True, False, True, True, True]
    assert ours("cast", np.array([300, -1], np.int32), to="u8").tolist() == [44, 255]
    assert ours("cast", f32([1e6, 0.1]), to="f16").tolist() == [np.inf, float(np.float16(0.1))]
    assert ours("cast", np.array([2**63 - 1], np.int64), to="u64").tolist() == [2**63 - 1]


@pytest.mark.parametrize("op", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize(("axes", "keepdims"), [((1,), True), ((0, 2), False), ((0, 1, 2, 3), False), ((3,), False)])
def test_reductions(op: str, axes: tuple[int, ...], keepdims: bool) -> None:
    x = normal(2, 3, 4, 5)
    computed = ours(f"reduce_{op}", x, axes=axes, keepdims=keepdims)
    expected = onnx_runtime(f"Reduce{op.capitalize()}", x, np.array(axes), keepdims=int(keepdims))
    close(computed, np.asarray(expected))


def test_reductions_of_whole_numbers() -> None:
    x = np.array([[-3, -4], [3, 4]], np.int8)
    assert ours("reduce_mean", x, axes=(1,), keepdims=False).tolist() == [-3, 3]
    assert ours("reduce_sum", x, axes=(1,), keepdims=False).tolist() == [-7, 7]
    assert ours("reduce_mean", np.array([250, 255], np.uint8), axes=(0,)).tolist() == [252]
    assert ours("reduce_sum", np.array([2**62, 1], np.int64), axes=(0,)).tolist() == [2**62 + 1]
    assert ours("reduce_max", x, axes=()).tolist() == x.tolist()


@pytest.mark.parametrize(("axis", "keepdims", "last"), list(itertools.product((0, 2), (False, True), (False, True))))
def test_arg(axis: int, keepdims: bool, last: bool) -> None:
    x = np.round(normal(3, 4, 6))  # with ties
    for op, theirs in (("arg_max", "ArgMax"), ("arg_min", "ArgMin")):
        expected = onnx_python(theirs, x, axis=axis, keepdims=int(keepdims), select_last_index=int(last))
        close(ours(op, x, axis=axis, keepdims=keepdims, last=last), expected)


@pytest.mark.parametrize(("axis", "count"), [(0, 2), (1, 4), (2, 1)])
@pytest.mark.parametrize("smallest", [False, True])
def test_arg_top(axis: int, count: int, smallest: bool) -> None:
    x = np.round(normal(3, 4, 6))  # with ties
    by_hand = sorted(range(x.shape[axis]), key=lambda i: (x.take(i, axis).flat[0] * (1 if smallest else -1), i))
    order = ours("arg_top", x, axis=axis, count=count, smallest=smallest)
    assert order.dtype == np.int64 and order.shape == (*x.shape[:axis], count, *x.shape[axis + 1 :])
    assert np.moveaxis(order, axis, -1)[0, 0].tolist() == by_hand[:count]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_normalisations(axis: int) -> None:
    x = normal(3, 4, 6) * 30
    close(ours("softmax", x, axis=axis), onnx_runtime("Softmax", x, axis=axis))
    close(ours("log_softmax", x, axis=axis), onnx_runtime("LogSoftmax", x, axis=axis))
    scale, bias = normal(*x.shape[axis:], seed=1), normal(*x.shape[axis:], seed=2)
    expected = onnx_runtime("LayerNormalization", x, scale, bias, axis=axis, epsilon=1e-3)
    close(ours("layer_norm", x, scale, bias, axis=axis, epsilon=1e-3), expected)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_attention(causal: bool, masked: bool) -> None:
    """By ONNX's own, whose heads are before the tokens; and of the first keys alone."""
    query, key, value = normal(2, 3, 4, 5), normal(2, 6, 2, 5, seed=1), normal(2, 6, 2, 7, seed=2)
    mask = normal(2, 4, 3, 6, seed=3) if masked else None
    count = 3 if causal else 6
    first = [x[:, :count].transpose(0, 2, 1, 3) for x in (query, key, value)]
    part = None if mask is None else mask[..., :count]
    expected = onnx_python("Attention", *first, part, opset=23, scale=0.4, is_causal=int(causal))
    have = ours("attention", query, key, value, mask, np.array([count]), scale=0.4, causal=causal)
    close(have, expected.transpose(0, 2, 1, 3))


def test_normalisations_of_nothing() -> None:
    none = np.zeros((0, 3), np.float32)
    for op in ("softmax", "log_softmax"):
        assert ours(op, none, axis=0).shape == (0, 3)
    assert ours("layer_norm", none, np.ones(3, np.float32), axis=1).shape == (0, 3)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 20])
def test_lrn(size: int) -> None:
    x = normal(1, 2, 3, 9)
    computed = ours("lrn", x, size=size, alpha=0.3, beta=0.6, bias=2.0)
    # The formula of ONNX's LRN, one channel at a time; ONNX Runtime does odd sizes only.
    expected = np.zeros_like(x)
    for c in range(9):
        region = range(max(0, c - (size - 1) // 2), min(8, c + math.ceil((size - 1) / 2)) + 1)
        expected[..., c] = x[..., c] / (2 + 0.3 / size * sum(x[..., i] ** 2 for i in region)) ** 0.6
    close(computed, expected)
    if size % 2:
        close(computed, nhwc(onnx_runtime("LRN", nchw(x), size=size, alpha=0.3, beta=0.6, bias=2.0)))


def test_concat_reshape_transpose_broadcast() -> None:
    a, b = normal(2, 3), normal(2, 1, seed=1)
    close(ours("concat", a, b, a, axis=1), onnx_runtime("Concat", a, b, a, axis=1))
    assert ours("reshape", a, shape=(3, 2)).tolist() == a.reshape(3, 2).tolist()
    close(
        ours("transpose", normal(2, 3, 4), perm=(2, 0, 1)), onnx_runtime("Transpose", normal(2, 3, 4), perm=(2, 0, 1))
    )
    close(ours("broadcast_to", b, shape=(4, 2, 3)), onnx_runtime("Expand", b, np.array([4, 2, 3])))
    assert ours("broadcast_to", b, shape=(4, 2, 3)).flags.c_contiguous


@given(st.data())
def test_slice(data: st.DataObject) -> None:
    length = data.draw(st.integers(0, 7))
    step = data.draw(st.integers(-4, 4).filter(bool))
    expected = list(range(length))[data.draw(st.integers(-8, 8)) : data.draw(st.none() | st.integers(-8, 8)) : step]
    if expected:
        start, stop = expected[0], max(-1, min(length, expected[-1] + (1 if step > 0 else -1)))
    else:
        start = stop = 0
    x = np.arange(length, dtype=np.int32)
    assert ours("slice", x, starts=(start,), stops=(stop,), steps=(step,)).tolist() == expected


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_pad(mode: str) -> None:
    x = normal(3, 4)
    computed = ours("pad", x, before=(1, 0), after=(2, 3), mode=mode, value=2.5)
    close(computed, onnx_runtime("Pad", x, np.array([1, 0, 2, 3]), f32(2.5), mode=mode))
    assert ours("pad", f32(1.0), before=(), after=(), mode=mode).shape == ()
    assert ours("pad", np.array([1], np.int8), before=(1,), after=(0,), value=-7).tolist() == [-7, 1]


@pytest.mark.parametrize("indices", [np.array([[0, -1], [2, 1]]), np.array(-2), np.zeros((0,), np.int64)])
@pytest.mark.parametrize("axis", [0, 1])
def test_gather(indices: Array, axis: int) -> None:
    x = normal(3, 4)
    close(ours("gather", x, indices, axis=axis), onnx_runtime("Gather", x, indices, axis=axis))


def test_resample_is_a_product_with_a_sparse_matrix() -> None:
    x = normal(2, 5, 3)
    index = np.array([[0, 1], [1, 2], [4, 4], [3, 0]], np.int32)
    weight = normal(4, 2, seed=1)
    matrix = np.zeros((4, 5), np.float32)
    for o, t in np.ndindex(4, 2):
        matrix[o, index[o, t]] += weight[o, t]
    close(ours("resample", x, index, weight, axis=1), np.einsum("oi,nic->noc", matrix, x))
    assert ours("resample", x, index[:0], weight[:0], axis=1).shape == (2, 0, 3)
    half = ours("resample", x.astype(np.float16), index, weight, axis=1)
    assert half.dtype == np.float16


@pytest.mark.parametrize("to", ["u8", "i8"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_quantize_and_back(to: str, axis: int | None) -> None:
    dtype = np.uint8 if to == "u8" else np.int8
    x = np.concatenate([normal(4, 20) * 50, np.arange(-10, 10, dtype=np.float32).reshape(4, 5) / 2], axis=1)
    shape = () if axis is None else (x.shape[axis],)
    scale = np.asarray(np.abs(np.random.default_rng(1).standard_normal(shape)) + 0.25).astype(np.float32)
    zero = np.random.default_rng(2).integers(0, 100, shape).astype(dtype)
    along: dict[str, Any] = {} if axis is None else {"axis": axis}
    q = onnx_runtime("QuantizeLinear", x, scale, zero, **along)
    close(ours("quantize", x, scale, zero, to=to, **along), q)
    close(ours("dequantize", q, scale, zero, **along), onnx_runtime("DequantizeLinear", q, scale, zero, **along))


def test_quantize_rounds_half_to_even_and_saturates() -> None:
    x = f32([0.5, 1.5, 2.5, -0.5, -1.5, 1e9, -1e9, np.inf, -np.inf])
    computed = ours("quantize", x, f32(1), np.array(1, np.int8), to="i8")
    assert computed.tolist() == [1, 3, 3, 1, -1, 127, -128, 127, -128]


def test_wide_results_are_not_rounded() -> None:
    x = f32([1 / 3])
    assert ours("mul", x, x).dtype == np.float32
    wide = ours("mul", x, x, wide=True)
    assert wide.dtype == np.float64 and wide[0] == float(x[0]) ** 2
    assert ours("mul", wide, x, wide=True)[0] == float(x[0]) ** 3  # and may be read with others
    assert ours("mul", x, x)[0] == x[0] * x[0]
    assert ours("greater", wide, x, wide=True).dtype == np.bool_


def test_inputs_that_do_not_go_with_the_operator() -> None:
    with pytest.raises(MavcgError, match="shapes that do not broadcast"):
        ours("add", normal(2), normal(3))
    with pytest.raises(MavcgError, match="1 arrays for 2 inputs"):
        evaluate(make_node("add", ["a", "b"], ["y"]), [normal(2)])
    with pytest.raises(MavcgError, match="indices from 3 to 3"):
        ours("gather", normal(2), np.array([3]))


def small_graph() -> Graph:
    b = GraphBuilder("g")
    x = b.input("x", TensorType("f32", (1, 4, 4, 2)))
    y = b.add("conv2d", [x, b.constant(normal(3, 3, 3, 2), "w")], act="relu")
    return b.finish([b.add("reduce_mean", [y], axes=(1, 2), keepdims=False), y, x])


def test_run_computes_every_output() -> None:
    graph, x = small_graph(), normal(1, 4, 4, 2)
    mean, conv, same = run(graph, x)
    np.testing.assert_array_equal(same, x)
    close(conv, np.maximum(ours("conv2d", x, graph.constants["w"]), 0))
    close(mean, conv.mean(axis=(1, 2)))
    assert [a.dtype for a in run(graph, x, wide=True)[:2]] == [np.float64] * 2


def test_run_wants_the_inputs_that_the_graph_has() -> None:
    with pytest.raises(MavcgError, match="0 inputs given; it has 1"):
        run(small_graph())
    with pytest.raises(MavcgError, match=r"input x is f32\[1,4,4,3\] where f32\[1,4,4,2\] is needed"):
        run(small_graph(), normal(1, 4, 4, 3))
