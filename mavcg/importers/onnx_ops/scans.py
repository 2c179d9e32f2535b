"""Handlers of CumSum and CumProd: by doubling, each step combines an element with the one 1, 2, 4, .. places before.

Sums of n floats have log2 n roundings in place of n. Source: Hillis and Steele, "Data Parallel Algorithms", 1986.
"""

from collections.abc import Mapping

from mavcg.importers.call import NodeCall, known_at_build
from mavcg.importers.movement import cut
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results, round_once
from mavcg.importers.value import Value

_COMBINE = {"CumSum": ("add", 0.0), "CumProd": ("mul", 1.0)}


@known_at_build("axis")
@round_once
def scan(call: OnnxCall) -> Results:
    """Import CumSum or CumProd: of an element and those before it, or after it (reverse), with or without itself."""
    x, axes = call.input(0, rank_min=1), call.ints(1, "axis")
    if len(axes) != 1:
        raise call.fail("its input axis is not one number")
    axis, reverse = call.axis(axes[0], x.rank), call.attr_bool("reverse")
    op, neutral = _COMBINE[call.op]
    if x.type.elements == 0:
        return x
    if call.attr_bool("exclusive"):
        x = _move(call, x, axis, 1, reverse, neutral)
    return running(call, x, axis, reverse, op, neutral)


def running(call: NodeCall, x: Value, axis: int, reverse: bool = False, op: str = "add", neutral: float = 0.0) -> Value:
    """Return, for each element, the combination of all elements up to it along an axis, or from it on (reverse)."""
    distance = 1
    while distance < x.shape[axis]:
        x = call.add(op, x, _move(call, x, axis, distance, reverse, neutral))
        distance *= 2
    return x


def _move(call: NodeCall, x: Value, axis: int, distance: int, back: bool, value: float) -> Value:
    """Return x moved by `distance` places along an axis, back or on, with this value in the places that become free."""
    length = x.shape[axis]
    kept = cut(call, x, {axis: (distance, length, 1) if back else (0, length - distance, 1)})
    ahead = [distance if a == axis else 0 for a in range(x.rank)]
    none = [0] * x.rank
    return call.add(
        "pad", kept, before=none if back else ahead, after=ahead if back else none, mode="constant", value=value
    )


HANDLERS: Mapping[str, Handler] = {"CumSum": scan, "CumProd": scan}
