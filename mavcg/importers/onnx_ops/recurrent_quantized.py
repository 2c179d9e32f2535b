"""Handler of DynamicQuantizeLSTM, onnxruntime's LSTM with 8-bit weights and inputs quantised at run time.

Its products are of integers: the input's for the whole sequence at once, the state's for each step.
"""

from collections.abc import Mapping

import numpy as np

from mavcg.graph import Array
from mavcg.importers.call import known_at_build
from mavcg.importers.emitter import Value, constant
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.onnx_ops.quantized import dynamic_range, quantize_values
from mavcg.importers.onnx_ops.recurrent import Product, Weights, long_short_term


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


HANDLERS: Mapping[str, Handler] = {"DynamicQuantizeLSTM": dynamic_quantize_lstm}
