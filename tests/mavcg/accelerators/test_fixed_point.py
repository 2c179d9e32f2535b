"""The fixed-point arithmetic agrees with Python's whole numbers and fractions, position by position."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.accelerators.fixed_point import (
    ROUNDINGS,
    convolution_sums,
    evaluate,
    evaluate_node,
    reciprocal,
    shift_round,
    to_integers,
    to_reals,
    wrap32,
)
from mavcg.accelerators.shapes import check_xgraph, result_shape
from mavcg.accelerators.xgraph import Parameters, XGraph, XNode
from mavcg.graph import Array
from tests.conftest import examples

EMPTY = XGraph("net", (), ())


def rounded(value: Fraction, rounding: str) -> int:
    """The rounding rules in exact fractions."""
    if rounding == "floor":
        return math.floor(value)
    if rounding == "half_up":
        return math.floor(value + Fraction(1, 2))
    return int(math.copysign(math.floor(abs(value) + Fraction(1, 2)), value))


@given(st.integers(-(1 << 45), 1 << 45), st.integers(-16, 60), st.sampled_from(ROUNDINGS))
def test_shift_is_exact(value: int, shift: int, rounding: str) -> None:
    expected = rounded(Fraction(value) / Fraction(2) ** shift, rounding)

    assert int(shift_round(np.array(value), shift, rounding)) == expected


@given(
    st.lists(st.integers(-(1 << 31), (1 << 31) - 1), min_size=1, max_size=4),
    st.integers(-3, 40),
    st.sampled_from(ROUNDINGS),
)
def test_shift_of_32_bits_is_exact(values: list[int], shift: int, rounding: str) -> None:
    expected = [rounded(Fraction(value) / Fraction(2) ** shift, rounding) for value in values]

    assert shift_round(np.array(values, np.int32), shift, rounding).tolist() == expected


@pytest.mark.parametrize("weight", [1, 127])
@pytest.mark.parametrize("bias", [5, (1 << 31) - 1])
def test_sums_are_exact_below_and_above_what_f32_holds(weight: int, bias: int) -> None:
    node = XNode("c", "conv", ("x",), (1, 1, 1, 2), (1, 1))
    weights = np.full((2, 1, 1, 1041), weight, np.int8)
    weights[1] *= -1
    x = np.full((1, 1, 1, 1041), -128, np.int8)
    x[..., -1] = 127

    sums = convolution_sums(node, Parameters(weights, np.full(2, bias, np.int32)), x)

    exact = int(weights[0].astype(int).ravel() @ x.astype(int).ravel())
    assert sums.ravel().tolist() == [(s + bias + (1 << 31)) % (1 << 32) - (1 << 31) for s in (exact, -exact)]


def test_unknown_rounding_is_refused() -> None:
    with pytest.raises(ValueError, match="half_up"):
        shift_round(np.array(1), 1, "even")


@given(st.integers(-(1 << 60), 1 << 60))
def test_sums_wrap(value: int) -> None:
    expected = (value + (1 << 31)) % (1 << 32) - (1 << 31)

    assert int(wrap32(np.array(value))) == expected


@given(st.integers(1, 1 << 16))
def test_reciprocal_is_nearest(divisor: int) -> None:
    multiplier, bits = reciprocal(divisor)

    assert abs(Fraction(multiplier, 1 << bits) - Fraction(1, divisor)) <= Fraction(1, 2 << bits)
    assert 1 << 15 <= multiplier < 1 << 16
    if divisor & (divisor - 1) == 0:
        assert Fraction(multiplier, 1 << bits) == Fraction(1, divisor)


def by_position(node: XNode, p: Parameters | None, x: Array, x_radix: int, rounding: str) -> Array:
    """A convolution or pool by loops over positions, from the module's words."""
    assert node.radix is not None
    out = np.zeros(node.shape, np.int64)
    taps = [(i, j) for i in range(node.kernel[0]) for j in range(node.kernel[1])]
    for n, h, w, o in np.ndindex(*node.shape):
        seen, counted = {}, 0
        for i, j in taps:
            row = h * node.stride[0] - node.pads[0] + i * node.dilation[0]
            column = w * node.stride[1] - node.pads[1] + j * node.dilation[1]
            if 0 <= row < x.shape[1] and 0 <= column < x.shape[2]:
                seen[i, j] = x[n, row, column]
            low, high = (
                (-node.count_pads[0], -node.count_pads[1]),
                (x.shape[1] + node.count_pads[2], x.shape[2] + node.count_pads[3]),
            )
            counted += low[0] <= row < high[0] and low[1] <= column < high[1]
        if node.kind == "max_pool":
            total, radix = int(max(v[o] for v in seen.values())), x_radix
        elif node.kind == "avg_pool":
            multiplier, bits = reciprocal(counted)
            total, radix = int(sum(int(v[o]) for v in seen.values())) * multiplier, x_radix + bits
        else:
            assert p is not None
            depth = p.weights.shape[3]
            first = o // (node.channels // node.groups) * depth
            total = int(p.bias[o])
            for (i, j), v in seen.items():
                total += sum(int(v[first + c]) * int(p.weights[o, i, j, c]) for c in range(depth))
            total = (total + (1 << 31)) % (1 << 32) - (1 << 31)
            total *= node.multipliers[o] if node.multipliers else 1
            radix = x_radix + node.weight_radix[o if len(node.weight_radix) > 1 else 0]
        shift = radix - node.radix
        value = rounded(Fraction(total) / Fraction(2) ** shift, rounding)
        if node.act == "leaky" and total < 0:
            slope = math.floor(node.act_args[0] * 256 + 0.5)
            value = rounded(Fraction(total * slope) / Fraction(2) ** (shift + 8), rounding)
        low_bound, high_bound = -128, 127
        if node.act == "relu":
            low_bound = 0
        if node.act == "clip":
            low_bound, high_bound = (min(127, max(-128, math.floor(b * 2.0**node.radix + 0.5))) for b in node.act_args)
        out[n, h, w, o] = min(max(value, low_bound), high_bound)
    return out


SIZE = st.integers(1, 3)


@st.composite
def windowed(draw: st.DrawFn) -> tuple[XNode, Parameters | None, Array, int]:
    """A convolution or pool with everything that it needs."""
    kind = draw(st.sampled_from(["conv", "depthwise", "max_pool", "avg_pool"]))
    random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    in_ch, kernel = draw(st.integers(2, 4)), (draw(SIZE), draw(SIZE))
    groups = {"conv": draw(st.sampled_from([1, in_ch // 2 if in_ch == 4 else 1])), "depthwise": in_ch}.get(kind, 1)
    out_ch = groups * draw(SIZE) if kind in ("conv", "depthwise") else in_ch
    dilation, stride = (draw(SIZE), draw(SIZE)), (draw(SIZE), draw(SIZE))
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    top, left, bottom, right = (draw(st.integers(0, min(2, spans[a % 2] - 1))) for a in range(4))
    pads = (top, left, bottom, right)
    shape = (1, spans[0] + draw(SIZE), spans[1] + draw(SIZE), in_ch)
    act, args = draw(st.sampled_from([("", ()), ("relu", ()), ("clip", (-0.5, 6.0)), ("leaky", (0.1,))]))
    x_radix, bits = draw(st.integers(-2, 8)), 1 if draw(st.booleans()) else out_ch
    counted = pads if kind == "avg_pool" and draw(st.booleans()) else (0, 0, 0, 0)
    node = XNode(
        "y",
        kind,
        ("x",),
        (1, 1, 1, out_ch),
        kernel,
        stride,
        dilation,
        pads,
        count_pads=counted,
        groups=groups,
        act=act,
        act_args=args,
        radix=draw(st.integers(-2, 8)),
        weight_radix=tuple(draw(st.integers(-1, 9)) for _ in range(bits)) if kind in ("conv", "depthwise") else (),
    )
    if kind in ("conv", "depthwise") and draw(st.booleans()):
        multipliers = tuple(draw(st.integers(1, 65535)) for _ in range(out_ch))
        node = replace(node, multipliers=multipliers, weight_radix=tuple(r + 14 for r in node.weight_radix))
    made = result_shape(EMPTY, node, [shape])
    node = XNode(**{**node.__dict__, "shape": made})
    x = random.integers(-128, 128, shape).astype(np.int8)
    if kind not in ("conv", "depthwise"):
        return node, None, x, x_radix
    weights = random.integers(-128, 128, (out_ch, *kernel, 1 if kind == "depthwise" else in_ch // groups))
    # Biases at the ends of 32 bits make sums wrap.
    bias = random.choice([0, 5, -7000, (1 << 31) - 100, -(1 << 31)], out_ch)
    return node, Parameters(weights.astype(np.int8), bias.astype(np.int32)), x, x_radix


@settings(max_examples=examples(60, 10))
@given(windowed(), st.sampled_from(ROUNDINGS))
def test_windows_agree_with_loops(
    case: tuple[XNode, Parameters | None, Array, int],
    rounding: str,
) -> None:
    node, parameters, x, x_radix = case

    made = evaluate_node(node, parameters, [x], [x_radix], rounding)

    assert made.dtype == np.int8
    np.testing.assert_array_equal(made, by_position(node, parameters, x, x_radix, rounding))


@pytest.mark.parametrize("stride,dilation,pads,output_pads", [(1, 1, 0, 0), (2, 1, 1, 1), (3, 2, 1, 0), (2, 1, 0, 1)])
def test_deconvolution_scatters(stride: int, dilation: int, pads: int, output_pads: int) -> None:
    random = np.random.default_rng(stride)
    x = random.integers(-128, 128, (1, 4, 5, 3)).astype(np.int8)
    p = Parameters(random.integers(-128, 128, (2, 3, 2, 3)).astype(np.int8), np.array([70, -9], np.int32))
    node = XNode(
        "y",
        "deconv",
        ("x",),
        (1, 1, 1, 2),
        (3, 2),
        (stride,) * 2,
        (dilation,) * 2,
        (pads,) * 4,
        (output_pads,) * 2,
        radix=3,
        weight_radix=(6,),
    )
    node = XNode(**{**node.__dict__, "shape": result_shape(EMPTY, node, [x.shape])})
    expected = np.zeros(node.shape, np.int64) + p.bias
    for h, w, i, j, o, c in np.ndindex(4, 5, 3, 2, 2, 3):
        row, column = h * stride + i * dilation - pads, w * stride + j * dilation - pads
        if 0 <= row < node.shape[1] and 0 <= column < node.shape[2]:
            expected[0, row, column, o] += int(x[0, h, w, c]) * int(p.weights[o, i, j, c])

    made = evaluate_node(node, p, [x], [4], "half_up")

    np.testing.assert_array_equal(made, np.clip(np.floor(expected / 2.0**7 + 0.5), -128, 127))


@given(
    st.sampled_from(["add", "sub", "mul", "max", "min"]),
    st.integers(-128, 127),
    st.integers(-128, 127),
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(-2, 9),
    st.sampled_from(ROUNDINGS),
)
def test_eltwise_is_rounded_once(op: str, a: int, b: int, ra: int, rb: int, ry: int, rounding: str) -> None:
    real_a, real_b = Fraction(a, 1 << ra), Fraction(b, 1 << rb)
    exact = {
        "add": real_a + real_b,
        "sub": real_a - real_b,
        "mul": real_a * real_b,
        "max": max(real_a, real_b),
        "min": min(real_a, real_b),
    }[op]
    node = XNode("y", "eltwise", ("a", "b"), (1, 1, 1, 1), op=op, radix=ry)
    inputs = [np.full((1, 1, 1, 1), v, np.int8) for v in (a, b)]

    made = int(evaluate_node(node, None, inputs, [ra, rb], rounding)[0, 0, 0, 0])

    assert made == min(127, max(-128, rounded(exact * Fraction(2) ** ry, rounding)))


def test_a_whole_graph() -> None:
    """Moves, concat with parts of different radix positions, a dense layer."""
    nodes = (
        XNode("x", "input", (), (1, 2, 4, 2), radix=4),
        XNode("up", "upsample", ("x",), (1, 4, 4, 2), factor=(2, 1), radix=4),
        XNode("re", "reorganise", ("up",), (1, 2, 2, 8), factor=(2, 2), radix=4),
        XNode("half", "eltwise", ("re",), (1, 2, 2, 8), op="copy", radix=2),
        XNode("both", "concat", ("re", "half"), (1, 2, 2, 16), radix=3),
        XNode("fc", "dense", ("both",), (1, 1, 1, 3), kernel=(2, 2), radix=1, weight_radix=(5,)),
    )
    random = np.random.default_rng(0)
    weights = random.integers(-128, 128, (3, 2, 2, 16)).astype(np.int8)
    graph = XGraph("net", nodes, ("fc",), {"fc": Parameters(weights, np.zeros(3, np.int32))})
    check_xgraph(graph)
    x = random.integers(-128, 128, (1, 2, 4, 2)).astype(np.int8)

    values = evaluate(graph, {"x": x}, "floor")

    np.testing.assert_array_equal(values["up"][0, :, :, 0], np.repeat(x[0, :, :, 0], 2, axis=0))
    np.testing.assert_array_equal(values["re"][0, 0, 0], np.concatenate([x[0, 0, 0], x[0, 0, 1]] * 2))
    np.testing.assert_array_equal(values["both"][..., :8], values["re"] >> 1)
    np.testing.assert_array_equal(values["both"][..., 8:], np.clip(values["half"].astype(int) * 2, -128, 127))
    sums = values["both"].astype(int).reshape(-1) @ weights.astype(int).reshape(3, -1).T
    np.testing.assert_array_equal(values["fc"].reshape(-1), np.clip(sums >> 7, -128, 127))


@given(st.floats(-300, 300, width=32), st.integers(-4, 12))
def test_reals_become_integers_and_back(value: float, radix: int) -> None:
    (integer,) = to_integers(np.array([value]), radix)
    (real,) = to_reals(np.array([integer]), radix)

    assert int(integer) == min(127, max(-128, math.floor(Fraction(value) * Fraction(2) ** radix + Fraction(1, 2))))
    assert Fraction(float(real)) == Fraction(int(integer)) / Fraction(2) ** radix
