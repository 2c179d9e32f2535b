"""Handlers of pools and reductions. Pads are never counted in a pool's mean or maximum."""

from collections.abc import Mapping
from functools import partial

from mavcg.importers.call import known_at_build
from mavcg.importers.emitter import Value
from mavcg.importers.tflite_ops.call import Handler, Results, TfliteCall
from mavcg.importers.tflite_ops.convolution import pads_of


def max_pool_2d(call: TfliteCall) -> Results:
    """Import MAX_POOL_2D."""
    x = call.operand(0, rank=4) if call.has_activation or not call.alike(0) else call.input(0, rank=4)
    return call.activate(_pool(call, "max_pool2d", x))


def average_pool_2d(call: TfliteCall) -> Results:
    """Import AVERAGE_POOL_2D."""
    return call.activate(_pool(call, "avg_pool2d", call.operand(0, rank=4)))


def l2_pool_2d(call: TfliteCall) -> Results:
    """Import L2_POOL_2D: the square root of the mean of squares in each window."""
    x = call.operand(0, rank=4)
    return call.activate(call.add("sqrt", _pool(call, "avg_pool2d", call.add("mul", x, x))))


def _pool(call: TfliteCall, op: str, x: Value) -> Value:
    kernel, stride = call.positive("FilterHeight", "FilterWidth"), call.positive("StrideH", "StrideW")
    return call.add(op, x, kernel=kernel, stride=stride, pads=pads_of(call, x.shape[1:3], kernel, stride))


@known_at_build("axes")
def _reduce(op: str, call: TfliteCall) -> Results:
    chooses = op in ("reduce_max", "reduce_min") and call.alike(0)
    x = call.input(0) if chooses else call.operand(0)
    return call.add(op, x, axes=_axes(call, x.rank), keepdims=bool(call.option("KeepDims", False)))


def _axes(call: TfliteCall, rank: int) -> tuple[int, ...]:
    # TFLite allows an axis to be listed twice.
    return tuple(sorted({call.axis(a, rank, "axes") for a in call.ints(1, "axes")}))


@known_at_build("axes")
def _all_or_any(op: str, call: TfliteCall) -> Results:
    x = call.input(0)
    if x.dtype != "bool":
        raise call.fail(f"its input is {x.type}; bool is needed")
    keepdims = bool(call.option("KeepDims", False))
    numbers = call.add(op, call.cast(x, "i32"), axes=_axes(call, x.rank), keepdims=keepdims)
    return call.cast(numbers, "bool")


@known_at_build("axis")
def _arg(op: str, call: TfliteCall) -> Results:
    x = call.input(0, rank_min=1)
    (axis,) = call.ints(1, "axis", 1)
    positions = call.add(op, x, axis=call.axis(axis, x.rank), keepdims=False)
    return call.cast(positions, call.results[0].dtype if call.results[0].dtype in ("i32", "i64") else "i64")


HANDLERS: Mapping[str, Handler] = {
    "ARG_MAX": partial(_arg, "arg_max"),
    "ARG_MIN": partial(_arg, "arg_min"),
    "AVERAGE_POOL_2D": average_pool_2d,
    "L2_POOL_2D": l2_pool_2d,
    "MAX_POOL_2D": max_pool_2d,
    "MEAN": partial(_reduce, "reduce_mean"),
    "REDUCE_ALL": partial(_all_or_any, "reduce_min"),
    "REDUCE_ANY": partial(_all_or_any, "reduce_max"),
    "REDUCE_MAX": partial(_reduce, "reduce_max"),
    "REDUCE_MIN": partial(_reduce, "reduce_min"),
    "REDUCE_PROD": partial(_reduce, "reduce_prod"),
    "SUM": partial(_reduce, "reduce_sum"),
}
