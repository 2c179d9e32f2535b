"""The operators of a TFLite file, as a partial build divides them, with their multiply-accumulates."""

import math
from collections.abc import Callable, Mapping

from mavcg.importers.tflite_model import TfliteOperator
from mavcg.importers.tflite_support import TfliteSupport
from mavcg.model.partial.plan import PlanNode

Shapes = Callable[[int], tuple[int, ...]]


def tflite_nodes(support: TfliteSupport) -> list[PlanNode]:
    """Return all operators of a file."""
    constants = {tensor.index for tensor in support.model.tensors if tensor.data is not None}
    return [
        PlanNode(
            supported.operator.op,
            support.model.label(supported.operator),
            tuple(str(i) for i in supported.operator.inputs if i >= 0 and i not in constants),
            tuple(map(str, supported.operator.outputs)),
            supported.why,
            macs=operator_macs(supported.operator, lambda i: support.model.tensors[i].shape),
        )
        for supported in support.operators
    ]


def operator_macs(operator: TfliteOperator, shape: Shapes) -> int | None:
    """Return the multiply-accumulates of matrix products, convolutions and recurrent operators; 0 for other operators.

    The result is None for control flow, whose iterations only a run can count, and if the file's shapes are
    inconsistent.
    """
    if operator.op in ("WHILE", "IF", "CALL"):
        return None
    count = _COUNTS.get(operator.op)
    try:
        return count(operator, shape) if count is not None else 0
    except IndexError:
        return None


def _filter_macs(operator: TfliteOperator, shape: Shapes) -> int:
    """Count MACs if each element of the result is a sum over all dimensions of a filter except the output channels."""
    return math.prod(shape(operator.outputs[0])) * math.prod(shape(operator.inputs[1])[1:])


def _depthwise(operator: TfliteOperator, shape: Shapes) -> int:
    return math.prod(shape(operator.outputs[0])) * math.prod(shape(operator.inputs[1])[1:3])


def _transposed_macs(data: int) -> Callable[[TfliteOperator, Shapes], int]:
    """Count MACs if each element of the input is multiplied by a filter: output channels times the window."""
    return lambda operator, shape: math.prod(shape(operator.inputs[data])) * math.prod(shape(operator.inputs[1])[:3])


def _product(operator: TfliteOperator, shape: Shapes) -> int:
    a, result = shape(operator.inputs[0]), shape(operator.outputs[0])
    terms = a[-2] if operator.options.get("AdjX") else a[-1]
    return math.prod(result) * terms


def _lstm(operator: TfliteOperator, shape: Shapes) -> int:
    """Count MACs per time step: 4 gates times cells, each a sum over the input and the state.

    Source of the order of inputs: TensorFlow Lite, lstm_shared.h: 2 is the forget gate's weights of the input, 6 those
    of the state.
    """
    data, weights, state = (shape(operator.inputs[i]) for i in (0, 2, 6))
    return math.prod(data[:-1]) * 4 * (math.prod(weights) + math.prod(state))


_COUNTS: Mapping[str, Callable[[TfliteOperator, Shapes], int]] = {
    "CONV_2D": _filter_macs,
    "CONV_3D": _filter_macs,
    "FULLY_CONNECTED": _filter_macs,
    "DEPTHWISE_CONV_2D": _depthwise,
    "TRANSPOSE_CONV": _transposed_macs(2),
    "CUSTOM Convolution2DTransposeBias": _transposed_macs(0),
    "BATCH_MATMUL": _product,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
    "LSTM": _lstm,
}
