"""Handlers of operators in computations of shapes and weights, which are evaluated at import only.

All inputs must be known at import. Sizes are checked before anything is allocated.
"""

from collections.abc import Mapping

import numpy as np

from mavcg.graph import Array
from mavcg.importers.call import known_at_build
from mavcg.importers.emitter import constant
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.onnx_ops.shape import count_size
from mavcg.importers.onnx_proto import dtype_of

LARGEST_KNOWN = 1 << 24  # maximum elements of an input or result
_PASS_STEPS = 10  # elementary steps per element of what takes a few passes


def _array(call: OnnxCall, i: int, label: str) -> Array:
    """Return a known input.

    Raises: MavcgError if it is not known or too large, or if all operators together take too many steps.
    """
    array = call.array(i, label)
    if array.size > LARGEST_KNOWN:
        raise call.unsupported(f"{label} with {array.size} elements", f"at most {LARGEST_KNOWN}")
    call.emitter.count_work(_PASS_STEPS * array.size, call.location)
    return array


@known_at_build("X", result=True)
def non_zero(call: OnnxCall) -> Results:
    """Import NonZero."""
    return constant(np.array(np.nonzero(np.atleast_1d(_array(call, 0, "X"))), np.int64))


@known_at_build(result=True)
def optional_has_element(call: OnnxCall) -> Results:
    """Import OptionalHasElement of a tensor, or of nothing."""
    return constant(np.array(call.maybe(0) is not None))


@known_at_build(result=True)
def eye_like(call: OnnxCall) -> Results:
    """Import EyeLike, which uses only the shape of its input."""
    x = call.input(0, rank=2)
    number = call.attr_int("dtype", 0)
    dtype = dtype_of(number, call.location) if number else x.dtype
    count_size(call, x.type.elements, 8)
    k = call.attr_int("k", 0)
    rows, columns = x.shape
    return constant(np.eye(rows, columns, min(max(k, -rows), columns)), dtype)


HANDLERS: Mapping[str, Handler] = {
    "NonZero": non_zero,
    "OptionalHasElement": optional_has_element,
    "EyeLike": eye_like,
}
