"""Handler of Det: elimination with partial pivoting, a step for each row, unrolled."""

from collections.abc import Mapping

import numpy as np

from mavcg.graph import DTYPES
from mavcg.importers.movement import cut
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results, round_once
from mavcg.importers.value import Value, constant

LARGEST = 64  # maximum rows of a matrix; each is some fifteen nodes


@round_once
def determinant(call: OnnxCall) -> Results:
    """Import Det of matrices [.., n, n]: the product of the pivots, with the sign of the exchanges of rows."""
    x = call.input(0, rank_min=2)
    lead, size = x.shape[:-2], x.shape[-1]
    if x.shape[-2] != size:
        raise call.fail(f"{x.type}; square matrices are needed")
    if size > LARGEST:
        raise call.unsupported(f"matrices of {size} rows", f"at most {LARGEST}")
    product = constant(np.ones(lead, DTYPES[x.dtype]))
    if size == 0:
        return product
    rest = x
    for left in range(size, 0, -1):
        pivot, rest, exchanged = _eliminate(call, rest, left)
        product = call.add("mul", product, call.add("where", exchanged, call.add("neg", pivot), pivot))
    return product


def _eliminate(call: OnnxCall, x: Value, size: int) -> tuple[Value, Value, Value]:
    """Return (pivot, what elimination leaves below it, True where rows are exchanged) of matrices [.., size, size].

    The pivot is the first column's element with the largest absolute value; its row changes places with the first row.
    """
    lead, axis = x.shape[:-2], x.rank - 2
    column = cut(call, x, {axis + 1: (0, 1, 1)})
    if size == 1:
        return call.reshape(column, lead), x, constant(np.zeros(lead, np.bool_))
    best = call.add("arg_max", call.add("abs", column), axis=axis, keepdims=True)
    rows = constant(np.arange(size, dtype=np.int64).reshape(size, 1))
    is_pivot = call.add("equal", best, rows)
    pivots = call.add("where", is_pivot, x, call.scalar(0, x))
    pivots = call.add("reduce_sum", pivots, axes=(axis,), keepdims=True)
    below = call.add("where", is_pivot, cut(call, x, {axis: (0, 1, 1)}), x)
    below = cut(call, below, {axis: (1, size, 1)})
    pivot = cut(call, pivots, {axis + 1: (0, 1, 1)})
    # A pivot of 0 has zeros below it, from which nothing is subtracted.
    divisor = call.add("where", call.add("equal", pivot, call.scalar(0, x)), call.scalar(1, x), pivot)
    factor = call.add("div", cut(call, below, {axis + 1: (0, 1, 1)}), divisor)
    taken = call.add("mul", factor, cut(call, pivots, {axis + 1: (1, size, 1)}))
    left = call.add("sub", cut(call, below, {axis + 1: (1, size, 1)}), taken)
    exchanged = call.add("greater", call.reshape(best, lead), constant(np.int64(0)))
    return call.reshape(pivot, lead), left, exchanged


HANDLERS: Mapping[str, Handler] = {"Det": determinant}
