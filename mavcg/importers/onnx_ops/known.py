"""Handlers of operators in computations of shapes and weights, which are evaluated at import only.

All inputs must be known at import. Sizes are checked before anything is allocated.
"""

from collections.abc import Mapping

import numpy as np

from mavcg.importers.call import known_at_build
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.onnx_proto import dtype_of
from mavcg.importers.value import constant


@known_at_build(result=True)
def optional_has_element(call: OnnxCall) -> Results:
    """Import OptionalHasElement of a tensor, or of nothing."""
    return constant(np.array(call.maybe(0) is not None))


@known_at_build(result=True)
def eye_like(call: OnnxCall) -> Results:
    """Import EyeLike, which uses only the shape of its input."""
    x = call.input(0, rank=2)
    if x.count is not None:
        raise call.unsupported("a shape that only a run decides", "a fixed one")
    number = call.attr_int("dtype", 0)
    dtype = dtype_of(number, call.location) if number else x.dtype
    call.count_size(x.type.elements, 8)
    k = call.attr_int("k", 0)
    rows, columns = x.shape
    return constant(np.eye(rows, columns, min(max(k, -rows), columns)), dtype)


HANDLERS: Mapping[str, Handler] = {
    "OptionalHasElement": optional_has_element,
    "EyeLike": eye_like,
}
