"""Every layer: the imported graph, computed by its definition, against loops written from Caffe's source, and OpenCV.

OpenCV reads Caffe's files up to version 4.12; its test is skipped where it is not installed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.graph import Array
from mavcg.importers.caffe_ops.table import LAYERS

Reference = Callable[..., Any]
Pair = tuple[int, int]


@dataclass(frozen=True)
class Case:
    """A layer's fields; the shapes of its inputs and blobs; what it computes. opencv: whether OpenCV has it too."""

    type: str
    fields: str
    inputs: tuple[tuple[int, ...], ...]
    blobs: tuple[tuple[int, ...], ...]
    reference: Reference
    tops: int = 1
    opencv: bool = True
    positive: bool = False

    def text(self) -> str:
        head = "".join(
            f'layer {{ name: "x{i}" type: "Input" top: "x{i}" input_param {{ shape {{ {dims(shape)} }} }} }}\n'
            for i, shape in enumerate(self.inputs)
        )
        bottoms = " ".join(f'bottom: "x{i}"' for i in range(len(self.inputs)))
        tops = " ".join(f'top: "y{i}"' for i in range(self.tops))
        return head + f'layer {{ name: "l" type: "{self.type}" {bottoms} {tops} {self.fields} }}\n'

    def arrays(self, shapes: Sequence[tuple[int, ...]], seed: int) -> list[Array]:
        source = np.random.default_rng(seed)
        arrays = [source.standard_normal(shape).astype(np.float32) for shape in shapes]
        return [np.abs(a) + np.float32(0.1) for a in arrays] if self.positive else arrays


def plane(values: Any) -> Any:
    return values[:, None, None]


def dims(shape: Sequence[int]) -> str:
    return " ".join(f"dim: {n}" for n in shape)


def convolved(
    x: Any, w: Any, b: Any = None, stride: Pair = (1, 1), pad: Pair = (0, 0), dilation: Pair = (1, 1), group: int = 1
) -> Any:
    """Six loops over the definition."""
    n, _, h, wide = x.shape
    out_ch, in_ch, kh, kw = w.shape
    out_h = (h + 2 * pad[0] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    out_w = (wide + 2 * pad[1] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    padded = np.pad(x, ((0, 0), (0, 0), (pad[0],) * 2, (pad[1],) * 2))
    y = np.zeros((n, out_ch, out_h, out_w))
    for o in range(out_ch):
        first = o // (out_ch // group) * in_ch
        for i in range(out_h):
            for j in range(out_w):
                rows = i * stride[0] + dilation[0] * np.arange(kh)
                columns = j * stride[1] + dilation[1] * np.arange(kw)
                window = padded[:, first : first + in_ch][:, :, rows][:, :, :, columns]
                y[:, o, i, j] = (window * w[o]).sum(axis=(1, 2, 3))
    return y if b is None else y + b[:, None, None]


def deconvolved(x: Any, w: Any, b: Any = None, stride: int = 1, pad: int = 0, group: int = 1) -> Any:
    """Every input element adds its filter to the output: blob 0 is [C, O/group, K, K]."""
    n, in_ch, h, wide = x.shape
    _, each, k, _ = w.shape
    y = np.zeros((n, each * group, (h - 1) * stride + k, (wide - 1) * stride + k))
    for c in range(in_ch):
        first = c // (in_ch // group) * each
        for i in range(h):
            for j in range(wide):
                window = y[:, first : first + each, i * stride : i * stride + k, j * stride : j * stride + k]
                window += x[:, c, i, j][:, None, None, None] * w[c]
    y = y[:, :, pad : y.shape[2] - pad, pad : y.shape[3] - pad]
    return y if b is None else y + b[:, None, None]


def pooled(x: Any, method: str, k: tuple[int, int], s: tuple[int, int], p: tuple[int, int], up: bool = True) -> Any:
    """pooling_layer.cpp, as it stands there."""
    sizes = []
    for axis in (0, 1):
        room = (x.shape[2 + axis] + 2 * p[axis] - k[axis]) / s[axis]
        size = (math.ceil(room) if up else math.floor(room)) + 1
        if any(p) and (size - 1) * s[axis] >= x.shape[2 + axis] + p[axis]:
            size -= 1
        sizes.append(size)
    y = np.zeros((*x.shape[:2], *sizes))
    for i in range(sizes[0]):
        for j in range(sizes[1]):
            starts = [i * s[0] - p[0], j * s[1] - p[1]]
            ends = [min(a + k[d], x.shape[2 + d] + p[d]) for d, a in enumerate(starts)]
            area = (ends[0] - starts[0]) * (ends[1] - starts[1])
            h, w = (slice(max(a, 0), min(e, x.shape[2 + d])) for d, (a, e) in enumerate(zip(starts, ends, strict=True)))
            window = x[:, :, h, w]
            y[:, :, i, j] = window.max(axis=(2, 3)) if method == "MAX" else window.sum(axis=(2, 3)) / area
    return y


def pool(method: str, shape: tuple[int, int], k: int, s: int, p: int = 0, opencv: bool = True) -> Case:
    fields = f"pooling_param {{ pool: {method} kernel_size: {k} stride: {s} pad: {p} }}"
    return Case(
        "Pooling", fields, ((2, 3, *shape),), (), lambda x: pooled(x, method, (k, k), (s, s), (p, p)), opencv=opencv
    )


def across(x: Any, n: int, alpha: float, beta: float, k: float = 1.0) -> Any:
    y = np.zeros_like(x)
    for c in range(x.shape[1]):
        near = x[:, max(0, c - n // 2) : c + n // 2 + 1]
        y[:, c] = x[:, c] * (k + alpha / n * (near**2).sum(axis=1)) ** -beta
    return y


def within(x: Any, n: int, alpha: float, beta: float) -> Any:
    mean = pooled(x**2, "AVE", (n, n), (1, 1), (n // 2, n // 2))
    return x * (1 + alpha * mean) ** -beta


def normalised(x: Any, mean: Any, variance: Any, factor: Any, eps: float = 1e-5) -> Any:
    times = 1 / factor[0]
    return (x - (mean * times)[:, None, None]) / np.sqrt((variance * times)[:, None, None] + eps)


def argmax(x: Any, axis: int) -> Any:
    return x.argmax(axis=axis, keepdims=True)


def shaped(*shape: int) -> Reference:
    return lambda x: x.reshape(shape)


def softmax(x: Any, axis: int = 1) -> Any:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def product(x: Any, w: Any, b: Any = 0.0) -> Any:
    return x.reshape(x.shape[0], -1) @ w.T + b


X = (2, 4, 7, 6)
CASES = {
    "convolution": Case(
        "Convolution", "convolution_param { num_output: 6 kernel_size: 3 }", (X,), ((6, 4, 3, 3), (6,)), convolved
    ),
    "strided_convolution": Case(
        "Convolution",
        "convolution_param { num_output: 6 kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 3 pad_h: 1 "
        "pad_w: 0 bias_term: false }",
        (X,),
        ((6, 4, 3, 2),),
        lambda x, w: convolved(x, w, None, (2, 3), (1, 0)),
    ),
    "grouped_dilated_convolution": Case(
        "Convolution",
        "convolution_param { num_output: 6 kernel_size: 3 pad: 2 dilation: 2 group: 2 }",
        (X,),
        ((6, 2, 3, 3), (6,)),
        lambda x, w, b: convolved(x, w, b, (1, 1), (2, 2), (2, 2), 2),
    ),
    "kernel_twice": Case(
        "Convolution",
        "convolution_param { num_output: 2 kernel_size: 3 kernel_size: 1 pad: 1 pad: 0 }",
        (X,),
        ((2, 4, 3, 1), (2,)),
        lambda x, w, b: convolved(x, w, b, pad=(1, 0)),
    ),
    "depthwise": Case(
        "Convolution",
        "convolution_param { num_output: 4 kernel_size: 3 group: 4 }",
        (X,),
        ((4, 1, 3, 3), (4,)),
        lambda x, w, b: convolved(x, w, b, group=4),
    ),
    "deconvolution": Case(
        "Deconvolution",
        "convolution_param { num_output: 6 kernel_size: 4 stride: 2 pad: 1 }",
        (X,),
        ((4, 6, 4, 4), (6,)),
        lambda x, w, b: deconvolved(x, w, b, 2, 1),
    ),
    "grouped_deconvolution": Case(
        "Deconvolution",
        "convolution_param { num_output: 6 kernel_size: 3 stride: 2 group: 2 bias_term: false }",
        (X,),
        ((4, 3, 3, 3),),
        lambda x, w: deconvolved(x, w, None, 2, 0, 2),
    ),
    "inner_product": Case(
        "InnerProduct", "inner_product_param { num_output: 5 }", ((3, 2, 3, 4),), ((5, 24), (5,)), product
    ),
    "inner_product_transposed": Case(
        "InnerProduct",
        "inner_product_param { num_output: 5 transpose: true bias_term: false }",
        ((3, 8),),
        ((8, 5),),
        lambda x, w: x @ w,
        opencv=False,
    ),
    "inner_product_last_axis": Case(
        "InnerProduct",
        "inner_product_param { num_output: 5 axis: -1 }",
        ((3, 2, 8),),
        ((5, 8), (5,)),
        lambda x, w, b: x @ w.T + b,
        opencv=False,
    ),
    "max_pool": pool("MAX", (7, 6), 3, 2),
    "max_pool_cut": pool("MAX", (6, 6), 2, 2, 1),
    "mean_pool": pool("AVE", (7, 6), 3, 2),
    "mean_pool_padded": pool("AVE", (7, 8), 3, 2, 1, opencv=False),
    "kernel_larger_than_image": pool("MAX", (3, 3), 4, 2, opencv=False),
    "pool_rounded_down": Case(
        "Pooling",
        "pooling_param { kernel_h: 2 kernel_w: 3 stride: 2 round_mode: FLOOR }",
        (X,),
        (),
        lambda x: pooled(x, "MAX", (2, 3), (2, 2), (0, 0), up=False),
        opencv=False,
    ),
    "global_mean": Case(
        "Pooling",
        "pooling_param { pool: AVE global_pooling: true }",
        (X,),
        (),
        lambda x: x.mean(axis=(2, 3), keepdims=True),
    ),
    "global_max": Case(
        "Pooling",
        "pooling_param { pool: MAX global_pooling: true }",
        (X,),
        (),
        lambda x: x.max(axis=(2, 3), keepdims=True),
    ),
    "lrn": Case(
        "LRN",
        "lrn_param { local_size: 3 alpha: 0.2 beta: 0.75 k: 2 }",
        (X,),
        (),
        lambda x: across(x, 3, 0.2, 0.75, 2),
        opencv=False,
    ),  # it ignores k
    "lrn_wider_than_channels": Case(
        "LRN", "lrn_param { local_size: 21 alpha: 0.5 beta: 0.5 }", (X,), (), lambda x: across(x, 21, 0.5, 0.5)
    ),
    "lrn_within": Case(
        "LRN",
        "lrn_param { local_size: 3 alpha: 0.2 norm_region: WITHIN_CHANNEL }",
        (X,),
        (),
        lambda x: within(x, 3, 0.2, 0.75),
    ),
    "relu": Case("ReLU", "", (X,), (), lambda x: np.maximum(x, 0)),
    "leaky_relu": Case("ReLU", "relu_param { negative_slope: 0.1 }", (X,), (), lambda x: np.where(x > 0, x, 0.1 * x)),
    "prelu": Case("PReLU", "", (X,), ((4,),), lambda x, a: np.where(x > 0, x, plane(a) * x)),
    "prelu_shared": Case(
        "PReLU", "prelu_param { channel_shared: true }", (X,), ((1,),), lambda x, a: np.where(x > 0, x, a[0] * x)
    ),
    "elu": Case("ELU", "elu_param { alpha: 0.5 }", (X,), (), lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
    "sigmoid": Case("Sigmoid", "", (X,), (), lambda x: 1 / (1 + np.exp(-x))),
    "tanh": Case("TanH", "", (X,), (), np.tanh),
    "abs": Case("AbsVal", "", (X,), (), np.abs),
    "softplus": Case("BNLL", "", (X,), (), lambda x: np.log1p(np.exp(x))),
    "power": Case(
        "Power",
        "power_param { power: 1.5 scale: 2 shift: 0.5 }",
        (X,),
        (),
        lambda x: (0.5 + 2 * x) ** 1.5,
        positive=True,
    ),
    "power_linear": Case("Power", "power_param { scale: -1 shift: 1 }", (X,), (), lambda x: 1 - x),
    "exp": Case("Exp", "exp_param { base: 2 scale: 0.5 shift: 1 }", (X,), (), lambda x: 2 ** (1 + 0.5 * x)),
    "exp_e": Case("Exp", "", (X,), (), np.exp),
    "log": Case(
        "Log",
        "log_param { base: 10 scale: 2 shift: 1 }",
        (X,),
        (),
        lambda x: np.log10(1 + 2 * x),
        opencv=False,
        positive=True,
    ),
    "threshold": Case(
        "Threshold", "threshold_param { threshold: 0.25 }", (X,), (), lambda x: (x > 0.25) * 1.0, opencv=False
    ),
    "dropout": Case("Dropout", "dropout_param { dropout_ratio: 0.5 }", (X,), (), lambda x: x),
    "softmax": Case("Softmax", "", (X,), (), softmax),
    "softmax_last": Case("Softmax", "softmax_param { axis: -1 }", (X,), (), lambda x: softmax(x, -1)),
    "concat": Case("Concat", "", (X, (2, 3, 7, 6)), (), lambda a, b: np.concatenate([a, b], 1)),
    "concat_old": Case(
        "Concat",
        "concat_param { concat_dim: 2 }",
        (X, (2, 4, 3, 6)),
        (),
        lambda a, b: np.concatenate([a, b], 2),
        opencv=False,
    ),
    "slice": Case("Slice", "", (X,), (), lambda x: (x[:, :2], x[:, 2:]), tops=2),
    "slice_points": Case(
        "Slice",
        "slice_param { axis: 2 slice_point: 2 slice_point: 3 }",
        (X,),
        (),
        lambda x: (x[:, :, :2], x[:, :, 2:3], x[:, :, 3:]),
        tops=3,
    ),
    "split": Case("Split", "", (X,), (), lambda x: (x, x), tops=2),
    "silence": Case("Silence", "", (X, X), (), lambda a, b: (), tops=0, opencv=False),
    "sum": Case("Eltwise", "", (X, X, X), (), lambda a, b, c: a + b + c),
    "weighted_sum": Case(
        "Eltwise", "eltwise_param { operation: SUM coeff: 1 coeff: -0.5 }", (X, X), (), lambda a, b: a - 0.5 * b
    ),
    "product": Case("Eltwise", "eltwise_param { operation: PROD }", (X, X), (), lambda a, b: a * b),
    "largest": Case("Eltwise", "eltwise_param { operation: MAX }", (X, X), (), np.maximum),
    "flatten": Case("Flatten", "", (X,), (), shaped(2, 168)),
    "flatten_middle": Case("Flatten", "flatten_param { axis: 1 end_axis: 2 }", (X,), (), shaped(2, 28, 6)),
    "reshape": Case("Reshape", "reshape_param { shape { dim: 0 dim: 2 dim: -1 } }", (X,), (), shaped(2, 2, 84)),
    "reshape_part": Case(
        "Reshape",
        "reshape_param { shape { dim: 3 dim: -1 } axis: -3 num_axes: 1 }",
        ((2, 4, 6, 5),),
        (),
        shaped(2, 4, 3, 2, 5),
        opencv=False,
    ),
    "batch_norm": Case("BatchNorm", "", (X,), ((4,), (4,), (1,)), normalised, positive=True),
    "scale": Case(
        "Scale", "scale_param { bias_term: true }", (X,), ((4,), (4,)), lambda x, s, b: x * plane(s) + plane(b)
    ),
    "scale_axes": Case(
        "Scale", "scale_param { axis: 2 num_axes: 2 }", (X,), ((7, 6),), lambda x, s: x * s, opencv=False
    ),
    "scale_by_bottom": Case(
        "Scale", "scale_param { axis: 0 }", (X, (2, 4)), (), lambda x, s: x * s[:, :, None, None], opencv=False
    ),
    "bias": Case("Bias", "", (X,), ((4,),), lambda x, b: x + plane(b), opencv=False),
    "crop": Case(
        "Crop", "crop_param { axis: 2 offset: 1 offset: 2 }", (X, (2, 9, 4, 3)), (), lambda a, b: a[:, :, 1:5, 2:5]
    ),
    "reduction_sum": Case(
        "Reduction", "reduction_param { axis: 2 coeff: 2 }", (X,), (), lambda x: 2 * x.sum(axis=(2, 3)), opencv=False
    ),
    "reduction_asum": Case(
        "Reduction",
        "reduction_param { operation: ASUM axis: 1 }",
        (X,),
        (),
        lambda x: np.abs(x).sum(axis=(1, 2, 3)),
        opencv=False,
    ),
    "reduction_sumsq": Case(
        "Reduction", "reduction_param { operation: SUMSQ }", (X,), (), lambda x: (x**2).sum(), opencv=False
    ),
    "reduction_mean": Case(
        "Reduction", "reduction_param { operation: 4 axis: -1 }", (X,), (), lambda x: x.mean(axis=3), opencv=False
    ),
    "tile": Case("Tile", "tile_param { axis: 2 tiles: 3 }", (X,), (), lambda x: np.tile(x, (1, 1, 3, 1)), opencv=False),
    "arg_max": Case("ArgMax", "", (X,), (), lambda x: argmax(x.reshape(2, -1), 1).reshape(2, 1, 1, 1), opencv=False),
    "arg_max_axis": Case("ArgMax", "argmax_param { axis: 1 }", (X,), (), lambda x: argmax(x, 1), opencv=False),
    "arg_max_and_value": Case(
        "ArgMax",
        "argmax_param { out_max_val: true }",
        ((3, 9),),
        (),
        lambda x: np.stack([x.argmax(1), x.max(1)], 1).reshape(3, 2, 1),
        opencv=False,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_agrees_with_the_definition(case: Case, imported: Callable[..., Any], computed: Callable[..., Any]) -> None:
    inputs, blobs = case.arrays(case.inputs, 1), case.arrays(case.blobs, 2)
    expected = case.reference(*(a.astype(np.float64) for a in (*inputs, *blobs)))
    expected = expected if isinstance(expected, tuple) else (expected,)
    tail = "" if case.tops else 'layer { name: "r" type: "ReLU" bottom: "x0" top: "r" }'  # a network needs an output
    made = computed(imported(case.text() + tail, {"l": blobs}), *inputs)

    assert len(made) == len(expected) + (not case.tops)
    for array, reference in zip(made, expected, strict=False):
        assert array.shape == np.shape(reference)
        np.testing.assert_allclose(array, reference, rtol=3e-5, atol=3e-5)


def test_every_layer_has_a_case() -> None:
    assert {case.type for case in CASES.values()} == set(LAYERS)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.opencv and case.tops == 1])
def test_agrees_with_opencv(name: str, tmp_path: Path, imported: Callable[..., Any], computed: Any) -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV (opencv-python-headless<=4.12) is not installed")
    case = CASES[name]
    inputs, blobs = case.arrays(case.inputs, 3), case.arrays(case.blobs, 4)
    (made,) = computed(imported(case.text(), {"l": blobs}), *inputs)
    net = cv2.dnn.readNetFromCaffe(str(tmp_path / "net.prototxt"), str(tmp_path / "net.caffemodel"))
    for i, array in enumerate(inputs):
        net.setInput(array, f"x{i}")
    np.testing.assert_allclose(made, net.forward().reshape(made.shape), rtol=1e-4, atol=1e-4)
