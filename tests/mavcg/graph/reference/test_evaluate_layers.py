"""Layers by definition beside ONNX Runtime and ONNX's reference: convolutions, pools, products, norms, attention."""

import math
from typing import Any

import numpy as np
import pytest

from mavcg.graph.ops import OPS
from tests.mavcg.graph.reference.other_results import close, nchw, nhwc, normal, onnx_python, onnx_runtime, ours


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
