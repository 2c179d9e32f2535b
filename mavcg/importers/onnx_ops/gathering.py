"""Handlers of operators that read and write by indices, known at import or computed."""

from collections.abc import Mapping

from mavcg.importers import indices
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results

_REDUCTIONS = ("none", "add", "mul", "max", "min")


def gather(call: OnnxCall) -> Results:
    """Import Gather."""
    x = call.input(0, rank_min=1)
    return indices.gather_along(call, x, call.input(1), call.axis(call.attr_int("axis", 0), x.rank))


def gather_elements(call: OnnxCall) -> Results:
    """Import GatherElements."""
    x = call.input(0, rank_min=1)
    return indices.gather_elements(call, x, call.input(1), call.axis(call.attr_int("axis", 0), x.rank))


def gather_nd(call: OnnxCall) -> Results:
    """Import GatherND."""
    return indices.gather_nd(call, call.input(0, rank_min=1), call.input(1), call.attr_int("batch_dims", 0))


def scatter_elements(call: OnnxCall) -> Results:
    """Import ScatterElements, and Scatter, its name before opset 11. The last update of equal indices wins."""
    x = call.input(0, rank_min=1)
    axis = call.axis(call.attr_int("axis", 0), x.rank)
    return indices.scatter_elements(call, x, call.input(1), call.input(2), axis, _reduction(call))


def scatter_nd(call: OnnxCall) -> Results:
    """Import ScatterND. The last update of equal indices wins."""
    return indices.scatter_nd(call, call.input(0, rank_min=1), call.input(1), call.input(2), _reduction(call))


def _reduction(call: OnnxCall) -> str:
    reduction = call.attr_str("reduction", "none")
    if reduction not in _REDUCTIONS:
        raise call.fail(f"reduction {reduction!r}; there are {', '.join(_REDUCTIONS)}")
    return reduction


HANDLERS: Mapping[str, Handler] = {
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
}
