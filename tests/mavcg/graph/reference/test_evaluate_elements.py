"""Operators by definition, element by element, reduced or moved, beside ONNX Runtime and ONNX's reference."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.graph import Array
from tests.mavcg.graph.reference.other_results import close, f32, normal, onnx_python, onnx_runtime, ours

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


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumulative(exclusive: bool, reverse: bool) -> None:
    x = normal(3, 4, 2)
    attrs = {"exclusive": exclusive, "reverse": reverse}
    expected = onnx_runtime("CumSum", x, np.array(1), **{name: int(flag) for name, flag in attrs.items()})
    close(ours("cumulative_sum", x, axis=1, **attrs), expected)
    made = ours("cumulative_prod", x, axis=1, **attrs)
    for i in range(4):
        first, end = (i + exclusive, 4) if reverse else (0, i + 1 - exclusive)
        close(made[:, i], x[:, first:end].prod(1))
    assert ours("cumulative_sum", np.array([200, 100], np.uint8), axis=0).tolist() == [200, 44]
    assert ours("cumulative_sum", x[:, :0], axis=1, **attrs).shape == (3, 0, 2)


@pytest.mark.parametrize(("axis", "count"), [(0, 2), (1, 4), (2, 1)])
@pytest.mark.parametrize("smallest", [False, True])
def test_arg_top(axis: int, count: int, smallest: bool) -> None:
    x = np.round(normal(3, 4, 6))  # with ties
    by_hand = sorted(range(x.shape[axis]), key=lambda i: (x.take(i, axis).flat[0] * (1 if smallest else -1), i))
    order = ours("arg_top", x, axis=axis, count=count, smallest=smallest)
    assert order.dtype == np.int64 and order.shape == (*x.shape[:axis], count, *x.shape[axis + 1 :])
    assert np.moveaxis(order, axis, -1)[0, 0].tolist() == by_hand[:count]


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
