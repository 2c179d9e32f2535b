"""Handlers of CumSum and CumProd."""

from collections.abc import Mapping

from mavcg.importers.call import known_at_build
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results

_OPERATORS = {"CumSum": "cumulative_sum", "CumProd": "cumulative_prod"}


@known_at_build("axis")
def scan(call: OnnxCall) -> Results:
    """Import CumSum or CumProd: of an element and those before it, or after it (reverse), with or without itself."""
    x, axes = call.input(0, rank_min=1), call.ints(1, "axis")
    if len(axes) != 1:
        raise call.fail("its input axis is not one number")
    flags = {name: call.attr_bool(name) for name in ("exclusive", "reverse")}
    return call.add(_OPERATORS[call.op], x, axis=call.axis(axes[0], x.rank), **flags)


HANDLERS: Mapping[str, Handler] = dict.fromkeys(_OPERATORS, scan)
