"""A row of a list that a subgraph replaces, as converters of TensorFlow write it, as one operator.

    head = SLICE(list, [0, 0, 0], [i, -1, -1])
    tail = SLICE(list, [i + 1, 0, 0], [-1, -1, -1])       ->   DYNAMIC_UPDATE_SLICE(list, row, [i, -1, -1])
    CONCATENATION(head, row, tail) axis 0

The sizes of head and tail are known only in the iteration, that of the result always. A start of -1 counts as 0.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mavcg.importers.tflite_model import TfliteModel, TfliteOperator


def with_row_updates(model: TfliteModel) -> TfliteModel:
    """Return a subgraph with updates in place of such concatenations."""
    producers = {index: operator for operator in model.operators for index in operator.outputs}
    operators = tuple(_update(operator, model, producers) or operator for operator in model.operators)
    return replace(model, operators=operators)


def _update(
    joined: TfliteOperator, model: TfliteModel, producers: Mapping[int, TfliteOperator]
) -> TfliteOperator | None:
    """Return the update that a concatenation is, or None."""

    def made_by(index: int, op: str, count: int) -> tuple[int, ...] | None:
        """Return the inputs of the operator that makes a tensor, if it is this one, without an activation."""
        operator = producers.get(index)
        plain = operator is not None and operator.op == op and not operator.options.get("FusedActivationFunction", 0)
        return operator.inputs if operator is not None and plain and len(operator.inputs) >= count else None

    def holds(index: int, value: int) -> bool:
        """Return True if all elements of a tensor are known to be a number."""
        data = model.tensors[index].data if index >= 0 else None
        return data is not None and bool((np.asarray(data) == value).all())

    def first_of(index: int, rest: int) -> int | None:
        """Return the scalar that is the first element of a list whose others are known to be a number."""
        parts = made_by(index, "CONCATENATION", 2)
        if parts is None or len(parts) != 2 or not holds(parts[1], rest):
            return None
        first = made_by(parts[0], "RESHAPE", 1)
        return first[0] if first is not None and model.tensors[parts[0]].shape == (1,) else None

    if joined.op != "CONCATENATION" or len(joined.inputs) != 3 or joined.options.get("FusedActivationFunction", 0):
        return None
    head, tail = (made_by(joined.inputs[i], "SLICE", 3) for i in (0, 2))
    row = made_by(joined.inputs[1], "RESHAPE", 2)
    if head is None or tail is None or row is None or joined.options.get("Axis", 0) != 0 or head[0] != tail[0]:
        return None
    shape = model.tensors[row[1]].data if row[1] >= 0 else None
    if shape is None or not shape.size or shape.reshape(-1)[0] != 1 or not holds(head[1], 0) or not holds(tail[2], -1):
        return None
    number, following = first_of(head[2], -1), first_of(tail[1], 0)
    terms = made_by(following, "ADD", 2) if following is not None else None
    one_more = terms is not None and any(a == number and holds(b, 1) for a, b in (terms, terms[::-1]))
    if number is None or not one_more:
        return None
    return TfliteOperator(joined.index, "DYNAMIC_UPDATE_SLICE", (head[0], joined.inputs[1], head[2]), joined.outputs)
