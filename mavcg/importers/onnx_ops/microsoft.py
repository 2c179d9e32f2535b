"""Handlers of the domain com.microsoft, whose operators onnxruntime's tools write.

DynamicQuantizeLSTM is onnxruntime's LSTM with 8-bit weights and inputs quantised at run time.
"""

from collections.abc import Mapping

import numpy as np

from mavcg.graph import Array
from mavcg.importers.call import known_at_build
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results, round_once
from mavcg.importers.onnx_ops.convolution import convolve, gemm_of, multiply
from mavcg.importers.onnx_ops.pooling import average_windows, over_image
from mavcg.importers.onnx_ops.quantized import (
    dequantize_linear,
    dequantize_values,
    dynamic_range,
    quantize_linear,
    quantize_values,
)
from mavcg.importers.onnx_ops.recurrent import long_short_term
from mavcg.importers.onnx_ops.recurrent_direction import Product, Weights
from mavcg.importers.value import Value, constant


def qlinear_binary(call: OnnxCall) -> Results:
    """Import QLinearAdd or QLinearMul. Inputs: a, its scale and zero point, the same of b, the result's."""
    a = dequantize_values(call, call.input(0), call.input(1), call.maybe(2))
    b = dequantize_values(call, call.input(3), call.input(4), call.maybe(5))
    return _requantize(call, call.add("add" if call.op.endswith("QLinearAdd") else "mul", a, b), 6)


def _requantize(call: OnnxCall, x: Value, at: int, like: int = 0) -> Value:
    return quantize_values(call, x, call.input(at), call.maybe(at + 1), dtype=call.input(like).dtype)


def qlinear_activation(call: OnnxCall) -> Results:
    """Import QLinearSigmoid or QLinearLeakyRelu."""
    x = dequantize_values(call, call.input(0), call.input(1), call.maybe(2))
    if call.op.endswith("QLinearSigmoid"):
        return _requantize(call, call.add("sigmoid", x), 3)
    return _requantize(call, call.add("leaky_relu", x, alpha=call.attr_float("alpha", 0.01)), 3)


def qlinear_average(call: OnnxCall) -> Results:
    """Import QLinearGlobalAveragePool or QLinearAveragePool."""
    if call.attr_bool("channels_last"):
        raise call.unsupported("channels_last is 1", "channels in dimension 1")
    x = dequantize_values(call, call.input(0), call.input(1), call.maybe(2))
    if call.op.endswith("QLinearGlobalAveragePool"):
        return _requantize(call, over_image(call, x, "reduce_mean"), 3)
    return _requantize(call, average_windows(call, x), 3)


def qlinear_concat(call: OnnxCall) -> Results:
    """Import QLinearConcat. Inputs: the result's scale and zero point, then each part with its own."""
    if len(call.inputs) < 5 or len(call.inputs) % 3 != 2:
        raise call.fail(f"{len(call.inputs)} inputs; scale, zero point, and three for each part are needed")
    parts = [
        dequantize_values(call, call.input(i), call.input(i + 1), call.maybe(i + 2))
        for i in range(2, len(call.inputs), 3)
    ]
    made = call.add("concat", *parts, axis=call.axis(call.attr_int("axis"), parts[0].rank))
    return _requantize(call, made, 0, like=2)


def qlinear_softmax(call: OnnxCall) -> Results:
    """Import QLinearSoftmax over one axis (the form since opset 13)."""
    if call.attr_int("opset", 13) < 13:
        raise call.unsupported("its attribute opset is below 13", "opset 13")
    x = dequantize_values(call, call.input(0), call.input(1), call.maybe(2))
    return _requantize(call, call.add("softmax", x, axis=call.axis(call.attr_int("axis", -1), x.rank)), 3)


def qgemm(call: OnnxCall) -> Results:
    """Import QGemm; without a scale of the result, the result is f32."""
    a, b, a_scale, b_scale = call.input(0, rank=2), call.input(3, rank=2), call.input(1), call.input(4)
    real_a = dequantize_values(call, a, a_scale, call.maybe(2))
    real_b = dequantize_values(call, b, b_scale, call.maybe(5), 0 if call.attr_bool("transB") else 1)
    bias = call.maybe(6)
    if bias is not None:
        unit = call.add("mul", call.reshape(a_scale, ()), b_scale)
        bias = dequantize_values(
            call, bias, unit, constant(np.zeros(unit.shape if unit.type.elements > 1 else (), np.int32)), -1
        )
    made = gemm_of(call, real_a, real_b, bias)
    return made if call.maybe(7) is None else _requantize(call, made, 7)


_ACTIVATIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Relu": ("relu", ()),
    "Sigmoid": ("sigmoid", ()),
    "Tanh": ("tanh", ()),
    "LeakyRelu": ("leaky_relu", ("alpha",)),
    "Clip": ("clip", ("lo", "hi")),
    "HardSigmoid": ("hard_sigmoid", ("alpha", "beta")),
}


@round_once
def fused_conv(call: OnnxCall) -> Results:
    """Import FusedConv: a convolution, an optional sum with a fourth input, an activation."""
    made = convolve(call, call.input(0), call.input(1), call.maybe(2))
    added = call.maybe(3)
    if added is not None:
        made = call.add("add", made, added)
    name = call.attr_str("activation", "")
    if not name:
        return made
    if name not in _ACTIVATIONS:
        raise call.unsupported(f"activation {name}", ", ".join(_ACTIVATIONS))
    op, names = _ACTIVATIONS[name]
    values = call.attr_floats("activation_params", length=len(names))
    return call.add(op, made, **dict(zip(names, values, strict=True)))


@round_once
def fused_matmul(call: OnnxCall) -> Results:
    """Import FusedMatMul: alpha times the product of A and B, each optionally transposed."""
    a, b = call.input(0, rank_min=2), call.input(1, rank_min=2)
    if call.attr_bool("transBatchA") or call.attr_bool("transBatchB"):
        raise call.unsupported("transBatchA or transBatchB", "transA, transB, alpha")
    if call.attr_bool("transA"):
        a = call.transpose(a, (*range(a.rank - 2), a.rank - 1, a.rank - 2))
    if call.attr_bool("transB"):
        b = call.transpose(b, (*range(b.rank - 2), b.rank - 1, b.rank - 2))
    made, alpha = multiply(call, a, b), call.attr_float("alpha", 1.0)
    return made if alpha == 1.0 else call.add("mul", made, call.scalar(alpha, made))


@round_once
def gelu(call: OnnxCall) -> Results:
    """Import Gelu (exact), FastGelu (by tanh) or BiasGelu; a second input is added first."""
    x, bias = call.input(0), call.maybe(1)
    x = x if bias is None else call.add("add", x, bias)
    return call.add("gelu", x, tanh=call.op.endswith("FastGelu"))


@round_once
def quick_gelu(call: OnnxCall) -> Results:
    """Import QuickGelu: x * sigmoid(alpha x)."""
    x = call.input(0)
    inner = call.add("mul", x, call.scalar(call.attr_float("alpha", 1.702), x))
    return call.add("mul", x, call.add("sigmoid", inner))


_MICROSOFT: Mapping[str, Handler] = {
    "QLinearAdd": qlinear_binary,
    "QLinearMul": qlinear_binary,
    "QLinearSigmoid": qlinear_activation,
    "QLinearLeakyRelu": qlinear_activation,
    "QLinearGlobalAveragePool": qlinear_average,
    "QLinearAveragePool": qlinear_average,
    "QLinearConcat": qlinear_concat,
    "QLinearSoftmax": qlinear_softmax,
    "QGemm": qgemm,
    "QuantizeLinear": quantize_linear,
    "DequantizeLinear": dequantize_linear,
    "FusedConv": fused_conv,
    "FusedMatMul": fused_matmul,
    "Gelu": gelu,
    "FastGelu": gelu,
    "BiasGelu": gelu,
    "QuickGelu": quick_gelu,
}


def _product(call: OnnxCall, weights: Array, scale: Array, zero: Array) -> Product:
    """Return a function that emits the product with 8-bit weights [4 * hidden, input], meaning (w - zero) * scale."""
    wide = constant(weights.astype(np.int16) - zero.astype(np.int16).reshape(-1, 1))
    unit = constant(scale.astype(np.float32).reshape(-1))

    def times(x: Value) -> Value:
        x_scale, point = dynamic_range(call, x)
        sums = call.add("imatmul", quantize_values(call, x, x_scale, point), wide, point, transpose_b=True)
        return call.add("mul", call.cast(sums, "f32"), call.add("mul", unit, x_scale))

    return times


def _weights(call: OnnxCall, number: int, at: int, scales: int, label: str) -> tuple[Array, Array, Array]:
    """Return a direction's (8-bit weights [4 * hidden, input], scales, zero points), single ones or one per row."""
    weights = call.array(at, label)
    scale, zero = call.array(scales, label + "_scale"), call.array(scales + 1, label + "_zero_point")
    if weights.ndim != 3 or weights.dtype not in (np.int8, np.uint8) or zero.dtype != weights.dtype:
        form = f"{label} {weights.dtype}{list(weights.shape)}, zero points {zero.dtype}"
        raise call.fail(f"{form}; 8 bits, [directions, input, 4 * hidden] are needed")
    for array in (scale, zero):
        if array.shape not in (weights.shape[:1], (weights.shape[0], weights.shape[2])):
            raise call.fail(f"a scale or zero point {list(array.shape)} for {label} {list(weights.shape)}")
    if number >= weights.shape[0]:
        raise call.fail(f"its input {label} has the shape {list(weights.shape)}; a direction is missing")
    return np.ascontiguousarray(weights[number].T), scale[number], zero[number]


def _read_weights(call: OnnxCall, number: int) -> Weights:
    w, r = _weights(call, number, 1, 8, "W"), _weights(call, number, 2, 10, "R")
    return Weights(w[0], r[0], _product(call, *w), _product(call, *r))


@known_at_build("W", "R", "B", "sequence_lens", "P", "W_scale", "W_zero_point", "R_scale", "R_zero_point")
def dynamic_quantize_lstm(call: OnnxCall) -> Results:
    """Import DynamicQuantizeLSTM."""

    return long_short_term(call, _read_weights)


_RECURRENT_QUANTIZED: Mapping[str, Handler] = {"DynamicQuantizeLSTM": dynamic_quantize_lstm}

HANDLERS: Mapping[str, Handler] = {**_MICROSOFT, **_RECURRENT_QUANTIZED}
