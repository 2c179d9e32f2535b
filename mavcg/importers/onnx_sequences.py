"""Sequences among the inputs of nodes, and among the results of branches that a run decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mavcg.importers.graph_loop import conditional_branches
from mavcg.importers.limits import UnsupportedOp
from mavcg.importers.onnx_ops.call import OnnxCall
from mavcg.importers.value import NOTHING, Value, sequence_of

if TYPE_CHECKING:
    import onnx


def check_tensors(node: onnx.NodeProto, inputs: Sequence[Value | None], location: str) -> None:
    """Check that all inputs are tensors. Raises: UnsupportedOp for a sequence, or an optional without an element."""
    for name, value in zip(node.input, inputs, strict=True):
        if value is not None and not value.is_tensor:
            kind = "an optional without an element" if value is NOTHING else "a sequence"
            raise UnsupportedOp(f"{location}: its input %{name} is {kind}; supported: tensors")


def either_branch(
    call: OnnxCall, condition: Value, branches: Sequence[Callable[[], Sequence[Value]]]
) -> list[Value] | None:
    """Return what conditional_branches does; sequences in the results are branched by their elements."""
    made: list[Sequence[Value]] = []

    def tensors(branch: Callable[[], Sequence[Value]]) -> list[Value]:
        made.append(branch())
        return [tensor for value in made[-1] for tensor in _tensors_of(value)]

    results = conditional_branches(call, condition, [partial(tensors, branch) for branch in branches])
    if results is None:
        return None
    first, second = ([_kind_of(value) for value in values] for values in made)
    if first != second:
        raise call.unsupported("branches with sequences of different lengths", "results of the same types")
    left = iter(results)
    return [_with_tensors(value, left) for value in made[0]]


def _with_tensors(value: Value, tensors: Iterator[Value]) -> Value:
    """Return a value of this kind, of the next tensors."""
    if value.is_tensor:
        return next(tensors)
    return value if value.elements is None else sequence_of([next(tensors) for _ in value.elements])


def _tensors_of(value: Value) -> Sequence[Value]:
    return (value,) if value.is_tensor else value.elements or ()


def _kind_of(value: Value) -> int | None:
    """Return the number of a sequence's elements, -1 of an optional without one, None of a tensor."""
    if value.is_tensor:
        return None
    return -1 if value.elements is None else len(value.elements)
