"""The shapes of a context of a library with bounded dimensions, which Python sets from the arrays of a run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph.counts import bounds_words
from mavcg.runtime.declared import ffi
from mavcg.runtime.library_tables import Tensor, check_status, dimensions_of, tensor_of

_SIZE: int = ffi.integer_const("MAVCG_ERROR_SIZE")
Shapes = Sequence[tuple[int, ...]]


def shapes_of(arrays: Sequence[Any]) -> list[tuple[int, ...]]:
    """Return the shapes of arrays of any library, or of numbers."""
    return [tuple(array.shape) if hasattr(array, "shape") else np.shape(array) for array in arrays]


def set_shapes(path: Path, table: Any, context: Any, shapes: Shapes) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Take the lengths of a context's next runs from the shapes of all inputs, and return inputs and outputs at them.

    Raises: MavcgError for shapes that do not fit; the context then keeps its lengths.
    """
    ranks = [table.inputs[i].rank for i in range(table.input_count)]
    dims = [ffi.new("int64_t[]", list(shape) or 1) for shape in shapes]
    fits = [len(shape) for shape in shapes] == ranks and all(d < 1 << 63 for shape in shapes for d in shape)
    status = table.set_shape(context, ffi.new("int64_t *[]", dims)) if fits else _SIZE
    if status == _SIZE:
        raise MavcgError(f"{path}: {_mismatch(table, shapes, _is_full(table, context))}")
    check_status(path, table, status)
    return context_tensors(table, context)


def context_tensors(table: Any, context: Any) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return the inputs and outputs of a context at its present lengths."""
    inputs, outputs = table.context_inputs(context), table.context_outputs(context)
    return (
        tuple(tensor_of(inputs[i]) for i in range(table.input_count)),
        tuple(tensor_of(outputs[i]) for i in range(table.output_count)),
    )


def check_run(path: Path, table: Any, status: int) -> None:
    """Raise MavcgError unless a run of arrays of the right sizes ended well, as check_status."""
    if status == _SIZE:  # as no array is wrong
        bounds = " and ".join(f"{name} of {bounds_words(*each)}" for name, each in dimensions_of(table).items())
        raise MavcgError(
            f"{path}: its states have grown beyond the lengths with which a run may begin, {bounds}; reset() or "
            "restore_state() them, or build the library with larger bounds (--shape)"
        )
    check_status(path, table, status)


def _is_full(table: Any, context: Any) -> bool:
    """Return True if states have grown beyond the lengths with which a run may begin: then no shapes fit.

    The context's present ones fit otherwise, and change nothing.
    """
    inputs, _ = context_tensors(table, context)
    dims = [ffi.new("int64_t[]", list(tensor.shape) or 1) for tensor in inputs]
    return bool(table.set_shape(context, ffi.new("int64_t *[]", dims)) == _SIZE)


def _mismatch(table: Any, shapes: Shapes, is_full: bool) -> str:
    """Return which shapes were given, and which the library takes. is_full: none, before a reset of its states."""
    given = " ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)
    bounds = dimensions_of(table)
    named = " and ".join(f"{name} of {bounds_words(*each)} in place of {each[1]}" for name, each in bounds.items())
    longest = ", ".join(str(tensor_of(table.inputs[i])) for i in range(table.input_count))
    remedy = "its states are full: reset() or restore_state() them" if is_full else "give such arrays"
    return (
        f"inputs {given} do not fit {longest} with the dimension{'s' if len(bounds) > 1 else ''} {named}; "
        f"{remedy}, or build the library with other bounds (--shape)"
    )
