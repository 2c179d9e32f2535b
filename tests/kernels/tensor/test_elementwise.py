"""Element-wise kernels against the reference: every type, broadcasting, strides, edges."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES
from mavcg.graph.ops.elementwise import ACTIVATIONS, PRODUCT_PAIRS
from mavcg.specs.kernel import View
from tests.kernels.onnxruntime_node import by_onnxruntime

Array = NDArray[Any]
AssertNode = Callable[..., list[Array]]
Inside = Callable[..., View]
INF, NAN = float("inf"), float("nan")


def numbers(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Numbers of all sizes of a type, of both signs and small ones too."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in ("f32", "f64", "f16"):
        return (rng.standard_normal(shape) * 3).astype(DTYPES[dtype])
    info = np.iinfo(DTYPES[dtype])
    wide = rng.integers(info.min, info.max, shape, DTYPES[dtype], endpoint=True)
    small = rng.integers(max(info.min, -3), 4, shape).astype(DTYPES[dtype])
    return np.where(rng.integers(0, 2, shape).astype(bool), wide, small)


@pytest.mark.spread(3)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "max", "min", "less", "greater_equal"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i8", "u8", "i32", "u16", "i64", "u64"])
def test_binary_of_every_type(assert_node: AssertNode, op: str, dtype: str) -> None:
    if dtype in ("u16", "u64") and op in ("sub", "mul", "greater_equal"):
        pytest.skip("as i32 and i64")
    a, b = numbers(dtype, (3, 37)), numbers(dtype, (3, 37), 1)
    b[b == 0] = 1  # NumPy and C divide by 0 as they like; test_division_by_zero
    assert_node(op, (a, b), rtol=0 if dtype[0] in "iub" or op not in ("add", "sub", "mul", "div") else 2e-7)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((1500,), (1500,)),
        ((2, 3, 5, 16), (16,)),
        ((2, 3, 5, 16), (2, 1, 1, 16)),
        ((2, 3, 5, 16), (2, 3, 5, 1)),
        ((4, 1, 33), (1, 5, 1)),
        ((7, 300), ()),
        ((), ()),
        ((1, 1, 1), (1,)),
        ((5, 2000), (5, 2000)),
        ((3, 1), (1, 1030)),
    ],
)
def test_broadcasting(assert_node: AssertNode, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    assert_node("sub", (numbers("f32", a), numbers("f32", b, 1)), rtol=1e-7)


@settings(max_examples=8)
@given(data=st.data())
def test_operands_of_any_shapes_and_views_are_broadcast(
    assert_node: AssertNode, inside: Inside, data: st.DataObject
) -> None:
    shape = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=4))
    sides = [
        tuple(n if data.draw(st.booleans()) else 1 for n in shape)[data.draw(st.integers(0, len(shape) - 1)) :]
        for _ in range(2)
    ]
    arrays = [numbers("f32", side, i) for i, side in enumerate(sides)]
    out = np.broadcast_shapes(*sides)
    views = {"x0": inside("f32", sides[0], data.draw(st.integers(0, 3)))} if data.draw(st.booleans()) else {}
    if data.draw(st.booleans()):
        views["y"] = inside("f32", out, data.draw(st.integers(0, 3)))
    assert_node("add", arrays, rtol=1e-7, views=views)


def test_strided_views(assert_node: AssertNode, inside: Inside) -> None:
    x, y = numbers("f32", (2, 5, 21)), numbers("f32", (2, 5, 21), 1)
    views = {"x0": inside("f32", x.shape), "y": inside("f32", x.shape, 11)}
    assert_node("mul", (x, y), rtol=1e-7, views=views)
    transposed = View("f32", (2, 5, 21), (105, 1, 5))
    assert_node("mul", (x, y), rtol=1e-7, views={"x1": transposed})


@pytest.mark.parametrize("op", ["max", "min"])
def test_extremes_of_nan(assert_node: AssertNode, op: str) -> None:
    a = np.array([1, NAN, 2, NAN, INF, -INF, 0] * 5, np.float32)
    b = np.array([NAN, 1, 3, NAN, -INF, 0, INF] * 5, np.float32)
    assert_node(op, (a, b))


@pytest.mark.parametrize("op", ["equal", "less", "less_equal", "greater", "greater_equal"])
def test_comparisons_give_bytes(assert_node: AssertNode, op: str) -> None:
    a = np.array([1, NAN, 2, 3, INF, -INF, 0, -0.0] * 5, np.float32)
    b = np.array([1, NAN, 3, 2, INF, 0, -0.0, 0.0] * 5, np.float32)
    computed = assert_node(op, (a, b))[0]
    assert set(computed.view(np.uint8).tolist()) <= {0, 1}


@pytest.mark.parametrize("op", ["and", "or", "xor", "equal"])
def test_logic(assert_node: AssertNode, op: str) -> None:
    assert_node(op, (numbers("bool", (3, 70)), numbers("bool", (70,), 1)))
    for dtype in ("u8", "i16", "i32", "u64"):
        assert_node(op, (numbers(dtype, (3, 70)), numbers(dtype, (70,), 1)))


def test_not_and_where(assert_node: AssertNode) -> None:
    flags = numbers("bool", (3, 1, 70))
    assert_node("not", (flags,))
    assert_node("where", (flags, numbers("f32", (3, 2, 70)), np.float32(7)))
    assert_node("where", (flags, numbers("i8", (70,)), numbers("i8", (3, 2, 1), 1)))
    assert_node("where", (flags[:, :, :1], numbers("i64", (70,)), numbers("i64", (3, 2, 1), 1)))


@pytest.mark.parametrize("dtype", ["i8", "i32", "i64", "u8", "u32"])
def test_division_by_zero(assert_node: AssertNode, dtype: str) -> None:
    info = np.iinfo(DTYPES[dtype])
    a = np.array([5, info.min, info.max, 0, info.min, 7], DTYPES[dtype])
    b = np.array([0, 0, 0, 0, -1 if info.min else 1, 2], DTYPES[dtype])
    by_zero = values_of(assert_node, "div", a, b)
    assert by_zero[:4].tolist() == [0] * 4 and by_zero[5] == 3
    assert by_zero[4] == info.min  # wraps around
    assert values_of(assert_node, "mod", a, b)[:4].tolist() == [0] * 4


def values_of(assert_node: AssertNode, op: str, a: Array, b: Array) -> Array:
    """The result where the reference says nothing, so that only the machines are compared with each other."""
    return assert_node(op, (a, b), compare=False)[0]


@pytest.mark.spread
@pytest.mark.parametrize("dtype", ["i8", "i32", "u8", "i64", "f32"])
@pytest.mark.parametrize("fmod", [False, True])
def test_mod(assert_node: AssertNode, dtype: str, fmod: bool) -> None:
    a, b = numbers(dtype, (4, 40)), numbers(dtype, (4, 40), 1)
    b[b == 0] = 3
    assert_node("mod", (a, b), fmod=fmod, rtol=1e-6 if dtype == "f32" else 0)


def test_fmod_edges(assert_node: AssertNode) -> None:
    a = np.array([1e30, -1e30, 3e38, 1e-40, 5, 5, INF, NAN, 0, -0.0, 7, 1e20, 16777216], np.float32)
    b = np.array([3, 0.7, 1e-38, 3e-41, INF, 0, 2, 1, 5, 5, -7, 1e-10, 16777215], np.float32)
    computed = assert_node("mod", (a, b), fmod=True)[0]
    assert np.signbit(computed[9])


def test_power(assert_node: AssertNode) -> None:
    rng = np.random.default_rng(0)
    x = np.exp(rng.uniform(-20, 20, 500)).astype(np.float32)
    y = rng.uniform(-4, 4, 500).astype(np.float32)
    assert_node("pow", (x, y), rtol=1.2e-7)
    near = (1 + rng.uniform(-1e-3, 1e-3, 64)).astype(np.float32)
    assert_node("pow", (near, np.float32(20000.5)), rtol=1.2e-7)
    assert_node("pow", (-x[:50], np.float32(3)), rtol=1.2e-7, constants=())


def test_power_edges(assert_node: AssertNode) -> None:
    x = np.array([0.0, -0.0, 1, -1, 2, -2, INF, -INF, NAN, 0.5, -0.5, 1e-40, 3e38, -27, -8], np.float32)
    y = np.array([0.0, -0.0, 1, -1, 2, 3, -3, 0.5, -0.5, INF, -INF, NAN, 1e-3, 1e10, 16777216, 1 / 3], np.float32)
    # Denormal results are rounded once, as C does; 1e-45 is the step between them.
    assert_node("pow", (x[:, None], y), rtol=1.2e-7, atol=1e-45)


@pytest.mark.sample(3)
@pytest.mark.parametrize("exponent", [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 2.5])
def test_power_of_a_constant(assert_node: AssertNode, exponent: float) -> None:
    x = np.array([0.0, 1, 2, 0.3, INF, NAN, 9, -0.0, -1, -3] * 3, np.float32)
    assert_node("pow", (x, np.float32(exponent)), rtol=4e-7, constants=(1,))
    endless = assert_node("pow", (np.float32(-INF), np.float32(exponent)), constants=(1,), compare=False)[0]
    assert endless == (-INF) ** exponent  # C's pow; NumPy takes the root


def test_power_of_integers(assert_node: AssertNode) -> None:
    x = np.arange(-5, 6, dtype=np.int32)[:, None]
    assert_node("pow", (x, np.arange(-3, 9, dtype=np.int32)))
    assert_node("pow", (numbers("i64", (20,)), np.array([3], np.int64)))


UNARY: dict[str, dict[str, float]] = {
    "clip": {"lo": -1.0, "hi": 2.0},
    "leaky_relu": {"alpha": 0.2},
    "gelu": {"tanh": True},
    "sign": {},
    "round": {},
    "hard_swish": {},
    "hard_swish_quotient": {},
    "reciprocal": {},
    "sigmoid": {},
}


@pytest.mark.parametrize("op", UNARY)
def test_unary_of_f32(assert_node: AssertNode, op: str) -> None:
    assert_node(op, (numbers("f32", (3, 401)),), rtol=2e-6, atol=2e-7, **UNARY[op])


def test_a_quotient_is_rounded_after_each_operator(assert_node: AssertNode) -> None:
    x = numbers("f32", (1000,)) * np.float32(3)
    computed = assert_node("hard_swish_quotient", (x,), rtol=2e-6, atol=2e-7)
    expected = x * np.clip(x + np.float32(3), 0, 6) / np.float32(6)
    for of_machine in computed:
        np.testing.assert_array_equal(of_machine, expected)


@pytest.mark.parametrize("op", ["Sigmoid", "Tanh"])
def test_quotients_of_polynomials_have_the_bits_of_onnxruntime(assert_node: AssertNode, op: str) -> None:
    special = np.array([0.0, -0.0, 1e-30, 9, -9, 18, -18, 1e30, np.inf, -np.inf, np.nan], np.float32)
    x = np.concatenate([numbers("f32", (2000,)) * np.float32(scale) for scale in (0.01, 1, 5)] + [special])
    computed = assert_node(f"{op.lower()}_quotient", (x,), rtol=2e-6, atol=3e-7)
    for of_machine in computed:
        np.testing.assert_array_equal(of_machine, by_onnxruntime(op, x))


def test_a_small_sigmoid_is_nearer_to_the_exact_one_than_onnxruntimes(assert_node: AssertNode) -> None:
    """docs/models.md says so: its error is 1e-7 absolutely, which is much of a result that is as small itself."""
    x = np.linspace(-17, -12, 1001, dtype=np.float32)
    exact = 1 / (1 + np.exp(-x.astype(np.float64)))
    computed = assert_node("sigmoid", (x,), rtol=2e-6, atol=0)
    theirs = by_onnxruntime("Sigmoid", x)

    assert np.abs(computed / exact - 1).max() < 2e-6
    assert 1e-8 < np.abs(theirs - exact).max() < 2e-7 and np.abs(theirs / exact - 1).max() > 0.01


@pytest.mark.parametrize("dtype", ["i8", "u8", "i32", "i64"])
def test_unary_of_integers(assert_node: AssertNode, dtype: str) -> None:
    x = numbers(dtype, (77,))
    assert_node("relu", (x,))
    assert_node("clip", (x,), lo=-2.5, hi=7.5)
    assert_node("clip", (x,), lo=float("-inf"), hi=3e9)
    if dtype[0] == "i":
        assert_node("neg", (x,))
        assert_node("abs", (x,))
        assert_node("sign", (x,))


def test_prelu(assert_node: AssertNode) -> None:
    x = numbers("f32", (2, 3, 4, 24))
    assert_node("prelu", (x, numbers("f32", (24,), 1)), rtol=1e-7)
    assert_node("prelu", (x, numbers("f32", (1,), 1)), rtol=1e-7)


@pytest.mark.parametrize("op", PRODUCT_PAIRS)
@pytest.mark.parametrize(("rows", "columns"), [(2, 64), (3, 37), (1, 1)])
def test_pairs_of_products_have_the_bits_of_three_operators(
    assert_node: AssertNode, op: str, rows: int, columns: int
) -> None:
    """Rotated halves of heads [tokens, heads, half], by angles [tokens, 1, half]: nothing is contracted."""
    first, second = (numbers("f32", (rows, 3, columns), seed) for seed in (0, 1))
    cos, sin = (numbers("f32", (rows, 1, columns), seed) for seed in (2, 3))
    made, *_ = assert_node(op, (first, cos, second, sin), rtol=1e-6, atol=1e-5)
    expected = first * cos + second * sin if op == "add_products" else first * cos - second * sin
    assert made.tobytes() == expected.tobytes()


def test_pairs_of_products_of_other_types(assert_node: AssertNode) -> None:
    for op in PRODUCT_PAIRS:
        assert_node(op, [numbers("f64", (5, 19), seed) for seed in range(4)], rtol=1e-12, atol=1e-12)
        assert_node(op, [numbers("f16", (5, 19), seed) for seed in range(4)], rtol=2e-3, atol=5e-2)


CASTS = [
    ("f32", "i32"),
    ("f32", "i8"),
    ("f32", "u8"),
    ("f32", "i64"),
    ("f32", "bool"),
    ("f32", "f16"),
    ("f16", "f32"),
    ("f32", "f64"),
    ("f64", "f32"),
    ("f64", "f16"),
    ("f16", "f64"),
    ("i64", "i32"),
    ("i32", "i64"),
    ("u8", "i32"),
    ("i8", "i16"),
    ("i64", "f32"),
    ("u64", "f32"),
    ("u8", "f32"),
    ("i32", "u8"),
    ("i32", "bool"),
    ("bool", "f32"),
    ("bool", "i64"),
    ("i8", "u8"),
    ("f64", "i32"),
    ("i8", "f16"),
]


@pytest.mark.sample(8)
@pytest.mark.parametrize(("source", "target"), CASTS)
def test_cast(assert_node: AssertNode, source: str, target: str) -> None:
    x = numbers(source, (5, 41))
    if target[0] == "u" and source[0] == "f":
        x = np.abs(x)
    assert_node("cast", (x,), to=target)


def test_cast_rounds_once(assert_node: AssertNode) -> None:
    # Just above the middle of two f16: by way of f32 it would be rounded to the middle, then to the even one below.
    x = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 65520.0, 1e-8, 0.1, -2049.5])
    assert_node("cast", (x,), to="f16")


@pytest.mark.parametrize(
    ("source", "target"),
    [("f32", "i32"), ("u32", "f32"), ("f64", "u64"), ("i64", "f64"), ("u16", "bf16"), ("bf16", "i16"), ("i8", "u8")],
)
def test_bitcast(assert_node: AssertNode, source: str, target: str) -> None:
    x = numbers(source, (5, 41)) if source != "bf16" else numbers("f32", (5, 41)).astype(DTYPES["bf16"])
    computed = assert_node("bitcast", (x,), to=target, compare=False)[0]
    assert computed.dtype == DTYPES[target] and computed.tobytes() == x.tobytes()


def test_cast_saturates(assert_node: AssertNode) -> None:
    x = np.array([NAN, INF, -INF, 1e20, -1e20, 300.0, -300.0, 127.9], np.float32)
    computed = assert_node("cast", (x,), to="i8", compare=False)[0]
    assert computed.tolist() == [0, 127, -128, 127, -128, 127, -128, 127]


@pytest.mark.parametrize("to", ["i8", "u8"])
def test_quantize(assert_node: AssertNode, to: str) -> None:
    x = np.concatenate([numbers("f32", (500,)) * 30, np.arange(-40, 40) / 4, [INF, -INF, 1e30]]).astype(np.float32)
    zero = np.array(3 if to == "i8" else 131, DTYPES[to])
    assert_node("quantize", (x, np.float32(0.5), zero), to=to)
    image = numbers("f32", (2, 3, 5))
    scales, zeros = np.array([0.1, 0.2, 0.017], np.float32), np.array([1, 2, 3], DTYPES[to])
    assert_node("quantize", (image, scales, zeros), to=to, axis=1)


def test_dequantize(assert_node: AssertNode) -> None:
    x = numbers("i8", (2, 3, 5))
    assert_node("dequantize", (x, np.float32(0.1), np.int8(-7)), rtol=1e-7)
    scales, zeros = np.array([0.1, 0.2, 0.017], np.float32), np.array([1, 2, 3], np.int8)
    assert_node("dequantize", (x, scales, zeros), rtol=1e-7, axis=1)
    assert_node("dequantize", (numbers("i32", (9,)), np.float32(0.1), np.int32(0)), rtol=2e-7)


@pytest.mark.parametrize(("to", "dtype"), [("i8", "i8"), ("u8", "u8"), ("u8", "i8")])
def test_eight_bit_sums_and_products(assert_node: AssertNode, to: str, dtype: str) -> None:
    a, b = numbers(dtype, (3, 150)), numbers(dtype, (150,), 1)
    zeros = {"a_zero": 3, "b_zero": 5, "out_zero": 4, "lo": 0, "hi": 120, "to": to}
    assert_node("qadd", (a, b), a_scale=0.7, b_scale=0.4, **zeros)
    assert_node("qmul", (a, b), multiplier=0.013, **zeros)


def test_unsupported_type_is_named(assert_node: AssertNode) -> None:
    powers = np.ones(3)
    with pytest.raises(MavcgError, match=r"node 'tested' \(pow\): no kernel for f64"):
        assert_node("pow", (powers, powers))


# Every f16 and its neighbours in a step of 37: all exponents, subnormal numbers, both zeros, infinities, NaN.
EVERY_37TH_HALF = np.arange(0, 1 << 16, 37, dtype=np.uint16).view(np.float16)


@pytest.mark.spread(3)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "max", "min", "less", "equal", "greater_equal"])
def test_half_binary_is_rounded_once(assert_node: AssertNode, op: str) -> None:
    a, b = EVERY_37TH_HALF[:1400], np.random.default_rng(0).permutation(EVERY_37TH_HALF)[:1400]
    ordinary = ~(np.isnan(a) | np.isnan(b))
    assert_node(op, (a[ordinary], b[ordinary]))
    assert_node(op, (numbers("f16", (3, 1, 41)), numbers("f16", (2, 41), 1)))


@pytest.mark.spread
@pytest.mark.parametrize("op", sorted(ACTIVATIONS))
def test_half_unary_is_rounded_once(assert_node: AssertNode, op: str) -> None:
    x = EVERY_37TH_HALF[np.isfinite(EVERY_37TH_HALF)]
    attrs = {"lo": -1.7, "hi": 70000.0} if op == "clip" else {}
    exact = op in ("relu", "clip", "neg", "abs", "sqrt", "reciprocal", "floor", "ceil", "round", "sign", "leaky_relu")
    x = x if op != "log" and op != "sqrt" else np.abs(x)
    # Others are computed in f32, with an error near the absolute one of f32 where terms cancel, then rounded.
    assert_node(op, (x,), rtol=0 if exact else 2.0**-10, atol=0 if exact else 6e-7, **attrs)


def test_half_of_three_operands(assert_node: AssertNode) -> None:
    x = numbers("f16", (2, 3, 4, 24))
    assert_node("prelu", (x, numbers("f16", (24,), 1)))
    assert_node("where", (numbers("bool", (24,)), x, numbers("f16", (4, 1), 1)))
    assert_node("mod", (x, numbers("f16", (24,), 1)), rtol=1e-3, atol=1e-3, fmod=True)
    assert_node("pow", (np.abs(x), numbers("f16", (24,), 1)), rtol=1e-3, atol=2.0**-24)
    assert_node("pow", (x, np.full((), 2, np.float16)), constants=(1,))
