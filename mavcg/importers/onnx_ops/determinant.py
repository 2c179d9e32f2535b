"""Handler of Det: determinants of small matrices, by the minors of their first rows."""

from collections.abc import Mapping
from itertools import combinations

from mavcg.importers.emitter import Value
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results, round_once

LARGEST = 6  # rows; the number of products is n * 2^(n - 1)


@round_once
def determinant(call: OnnxCall) -> Results:
    """Import Det of matrices in the last two dimensions."""
    x = call.input(0, rank_min=2)
    n, columns = x.shape[-2:]
    if n != columns:
        raise call.fail(f"{x.type}; square matrices are needed")
    if not 1 <= n <= LARGEST:
        raise call.unsupported(f"matrices of {n} rows", f"1 to {LARGEST}")
    outer = x.shape[:-2]
    matrices = call.reshape(x, (x.type.elements // (n * n), n, n))

    def entry(row: int, column: int) -> Value:
        starts, stops = (0, row, column), (matrices.shape[0], row + 1, column + 1)
        return call.reshape(call.add("slice", matrices, starts=starts, stops=stops, steps=(1, 1, 1)), outer)

    minors: dict[tuple[int, ...], Value] = {(column,): entry(0, column) for column in range(n)}  # of the rows so far
    for row in range(1, n):
        entries = [entry(row, column) for column in range(n)]
        larger = {}
        for chosen in combinations(range(n), row + 1):
            total: Value | None = None
            for place, column in enumerate(chosen):
                rest = tuple(other for other in chosen if other != column)
                term = call.add("mul", entries[column], minors[rest])
                op = "sub" if (row + place) % 2 else "add"
                total = (call.add("neg", term) if op == "sub" else term) if total is None else call.add(op, total, term)
            assert total is not None
            larger[chosen] = total
        minors = larger
    (made,) = minors.values()
    return made


HANDLERS: Mapping[str, Handler] = {"Det": determinant}
