"""Operators of a chain in 8 bits: between QuantizeLinear and DequantizeLinear, and those of QLinear type."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bench.chains.growing import Growing, Kind, UnsuitableError
from bench.chains.kinds_windows import window
from bench.differential.part import MICROSOFT


def _parameters(p: Growing, values: Any, dtype: Any) -> tuple[str, str]:
    """Add scale and zero point of values as constants; some of them saturate."""
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    scale = max((high - low) / 255 * p.pick(1.0, 1.0, 0.7), 1e-4)
    info = np.iinfo(dtype)
    zero = int(np.clip(round(info.min - low / scale), info.min, info.max))
    return p.constant(scale, np.float32), p.constant(zero, dtype)


def quantised(p: Growing, x: str, dtype: Any = None) -> tuple[str, str, str]:
    """Quantise a tensor of known values; returns it, scale and zero point."""
    if x not in p.values or p.dtype != np.float32 or not np.isfinite(p.values[x]).all():
        raise UnsuitableError("only f32 of known finite values")
    scale, zero = _parameters(p, p.values[x], dtype or p.pick(np.uint8, np.int8))
    name = str(p.add("QuantizeLinear", x, scale, zero))
    p.memo[name] = (scale, zero)
    return name, scale, zero


def eight_bits(p: Growing, rank: int | None = None) -> tuple[str, str, str]:
    """Return an 8-bit tensor with its scale and zero point: a result of before, or a tensor that is quantised."""
    name = p.tensor(lambda x: x.dtype in (np.uint8, np.int8) and (x.ndim == rank if rank is not None else x.ndim > 0))
    if name in p.memo and p.rng.random() < 0.8:
        return (name, *p.memo[name])
    return quantised(p, p.real(rank))


def _result(p: Growing, name: str, scale: str, zero: str) -> None:
    """Keep a result's parameters; a share is dequantised at once."""
    p.memo[name] = (scale, zero)
    if p.rng.random() < 0.3:
        p.add("DequantizeLinear", name, scale, zero)


def _wide(p: Growing, dtype: Any) -> tuple[str, str]:
    return p.constant(p.rng.uniform(0.02, 0.1), np.float32), p.constant(int(p.rng.integers(0, 20)), dtype)


def fake_quantise(p: Growing) -> None:
    """QuantizeLinear and DequantizeLinear around a tensor."""
    p.add("DequantizeLinear", *quantised(p, p.real()))


def _weights(p: Growing, shape: tuple[int, ...], axis: int) -> tuple[str, str, str]:
    """Add 8-bit weights: i8 with a scale for each channel, or for all."""
    w = p.constant(p.rng.integers(-60, 61, shape), np.int8)
    if p.opset >= 13 and p.pick(0, 1):
        n = shape[axis]
        return w, p.constant(p.rng.uniform(0.005, 0.02, n), np.float32), p.constant(np.zeros(n), np.int8)
    return w, p.constant(0.01, np.float32), p.constant(0, np.int8)


def conv_between(p: Growing) -> None:
    """A convolution between DequantizeLinear and QuantizeLinear, as quantised models have it."""
    q = eight_bits(p, 4)
    channels, lengths = p.shape_of(q[0])[1], p.shape_of(q[0])[2:]
    made = window(p, lengths, True)
    groups = p.pick(1, 1, channels)
    out = groups * p.pick(1, 2, 5)
    w, scale, zero = _weights(p, (out, channels // groups, *made["kernel_shape"]), 0)
    axis: dict[str, Any] = {"axis": 0} if p.opset >= 13 else {}
    real = p.add("DequantizeLinear", w, scale, zero, **axis)
    y = p.add("Conv", p.add("DequantizeLinear", *q), real, group=groups, **made)
    if p.pick(0, 1):
        y = p.add("Relu", y)
    out_scale, out_zero = _wide(p, p.pick(np.uint8, np.int8))
    _result(p, p.add("QuantizeLinear", y, out_scale, out_zero), out_scale, out_zero)


def binary_between(p: Growing) -> None:
    a = eight_bits(p)
    b = eight_bits(p)
    y = p.add(p.pick("Add", "Mul", "Sub"), p.add("DequantizeLinear", *a), p.add("DequantizeLinear", *b))
    scale, zero = _wide(p, p.pick(np.uint8, np.int8))
    _result(p, p.add("QuantizeLinear", y, scale, zero), scale, zero)


def qlinear_conv(p: Growing) -> None:
    x, scale, zero = eight_bits(p, 4)
    channels, lengths = p.shape_of(x)[1], p.shape_of(x)[2:]
    made = window(p, lengths, True)
    groups = p.pick(1, 1, channels)
    out = groups * p.pick(1, 2, 5)
    w, w_scale, w_zero = _weights(p, (out, channels // groups, *made["kernel_shape"]), 0)
    dtype = p.values[x].dtype
    out_scale, out_zero = _wide(p, dtype)
    bias = [p.constant(p.rng.integers(-500, 500, out), np.int32)] if p.pick(0, 1) else []
    given = (x, scale, zero, w, w_scale, w_zero, out_scale, out_zero, *bias)
    _result(p, p.add("QLinearConv", *given, group=groups, **made), out_scale, out_zero)


def qlinear_matmul(p: Growing) -> None:
    x, scale, zero = eight_bits(p, p.pick(2, 3))
    inner = p.shape_of(x)[-1]
    w = p.constant(p.rng.integers(-60, 61, (inner, p.pick(1, 5, 8))), np.int8)
    out_scale, out_zero = _wide(p, p.values[x].dtype)
    given = (x, scale, zero, w, p.constant(0.01, np.float32), p.constant(0, np.int8), out_scale, out_zero)
    _result(p, p.add("QLinearMatMul", *given), out_scale, out_zero)


def integer_matmul(p: Growing) -> None:
    x, scale, zero = eight_bits(p, 2)
    w = p.constant(p.rng.integers(-60, 61, (p.shape_of(x)[-1], p.pick(1, 5, 8))), np.int8)
    y = p.add("MatMulInteger", x, w, zero)
    p.add("Mul", p.add("Cast", y, to=1), scale)


def qlinear_binary(p: Growing) -> None:
    a = eight_bits(p)
    shape, dtype = p.shape_of(a[0]), p.values[a[0]].dtype
    name = p.tensor(lambda x: x.dtype == dtype and x.shape in (shape, shape[1:], shape[2:]))
    b = (name, *p.memo[name]) if name in p.memo else a
    scale, zero = _wide(p, dtype)
    _result(p, p.add(p.pick("QLinearAdd", "QLinearMul"), *a, *b, scale, zero, domain=MICROSOFT), scale, zero)


def qlinear_unary(p: Growing) -> None:
    op = p.pick(
        "QLinearSigmoid", "QLinearLeakyRelu", "QLinearGlobalAveragePool", "QLinearSoftmax", "QLinearAveragePool"
    )
    a = eight_bits(p, 4 if op.endswith("Pool") else None)
    dtype = p.values[a[0]].dtype
    scale, zero = _wide(p, dtype)
    if op in ("QLinearSigmoid", "QLinearSoftmax"):
        scale, zero = p.constant(1 / 256, np.float32), p.constant(np.iinfo(dtype).min, dtype)
    rows, columns = p.shape_of(a[0])[2:4] if op == "QLinearAveragePool" else (1, 1)
    attributes: Mapping[str, dict[str, Any]] = {
        "QLinearLeakyRelu": {"alpha": 0.1},
        "QLinearGlobalAveragePool": {"channels_last": 0},
        "QLinearSoftmax": {"axis": -1, "opset": 13},
        "QLinearAveragePool": {"kernel_shape": [min(2, rows), min(2, columns)], "strides": [1, 1]},
    }
    more = attributes.get(op, {})
    _result(p, p.add(op, *a, scale, zero, domain=MICROSOFT, **more), scale, zero)


def qlinear_concat(p: Growing) -> None:
    a = eight_bits(p)
    shape, dtype = p.shape_of(a[0]), p.values[a[0]].dtype
    name = p.tensor(lambda x: x.dtype == dtype and x.shape == shape)
    b = (name, *p.memo[name]) if name in p.memo else a
    scale, zero = _wide(p, dtype)
    axis = int(p.rng.integers(len(shape)))
    _result(p, p.add("QLinearConcat", scale, zero, *a, *b, axis=axis, domain=MICROSOFT), scale, zero)


def pool(p: Growing) -> None:
    """The maximum of 8-bit numbers themselves."""
    a = eight_bits(p, 4)
    _result(p, p.add("MaxPool", a[0], **window(p, p.shape_of(a[0])[2:], False)), a[1], a[2])


KINDS: Mapping[str, tuple[int, Kind]] = {
    "QuantizeLinear and back": (10, fake_quantise),
    "Conv between": (10, conv_between),
    "Binary between": (10, binary_between),
    "QLinearConv": (10, qlinear_conv),
    "QLinearMatMul": (10, qlinear_matmul),
    "MatMulInteger": (10, integer_matmul),
    "QLinear binary": (10, qlinear_binary),
    "QLinear unary": (10, qlinear_unary),
    "QLinear unary again": (10, qlinear_unary),
    "QLinearConcat": (10, qlinear_concat),
    "MaxPool of 8 bits": (12, pool),
}
