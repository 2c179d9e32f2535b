"""Arrays of a model's run: inputs and outputs as they are given, checked against the model's tensors.

Of small models the time of a call is in these lines: they make no objects but arrays.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.errors import MavcgError
from mavcg.runtime.library_tables import Tensor

Array = NDArray[Any]
ndarray, empty = np.ndarray, np.empty


def new_outputs(tensors: Sequence[Tensor]) -> tuple[Array, ...]:
    """Return new arrays for the outputs."""
    return tuple([empty(tensor.shape, tensor.dtype) for tensor in tensors])


def are_inputs(tensors: Sequence[Tensor], arrays: Sequence[Any]) -> bool:
    """Return True if the arrays are inputs as they are, which dense_inputs returns unchanged."""
    if len(arrays) != len(tensors):
        return False
    for value, tensor in zip(arrays, tensors):  # noqa: B905 - as below
        if type(value) is not ndarray or value.shape != tensor.shape or value.dtype != tensor.dtype:
            return False
        flags = value.flags
        if not (flags.c_contiguous and flags.aligned):
            return False
    return True


def dense_inputs(path: Path, tensors: Sequence[Tensor], arrays: Sequence[Any]) -> list[Array]:
    """Return the inputs as dense arrays. Raises: MavcgError for a wrong number, shape or dtype."""
    if len(arrays) != len(tensors):
        required = ", ".join(map(str, tensors)) or "none"
        raise MavcgError(f"{path}: {len(arrays)} inputs given, the model takes {len(tensors)}: {required}")
    checked: list[Array] = []
    for value, tensor in zip(arrays, tensors):  # noqa: B905 - strict takes time, and the lengths are equal
        array = value if type(value) is ndarray else _array_of(path, value, tensor)
        if array.shape != tensor.shape or array.dtype != tensor.dtype:
            number = len(checked)
            raise MavcgError(f"{path}: input {number} ({tensor.name}): {_mismatch(array, tensor)}")
        flags = array.flags
        dense = flags.c_contiguous and flags.aligned
        checked.append(array if dense else np.require(array, requirements=["C", "A"]))
    return checked


def given_outputs(path: Path, tensors: Sequence[Tensor], out: Sequence[Array] | Array) -> tuple[Array, ...]:
    """Return the arrays that the caller gave for the outputs.

    Raises: MavcgError for an array that cannot be written.
    """
    outputs = (out,) if type(out) is ndarray else tuple(out)
    if len(outputs) != len(tensors):
        raise MavcgError(f"{path}: out has {len(outputs)} arrays, the model gives {len(tensors)}")
    for array, tensor in zip(outputs, tensors):  # noqa: B905 - as above
        if type(array) is not ndarray:
            raise MavcgError(f"{path}: out ({tensor.name}): is not a NumPy array; give a writable one")
        if array.shape != tensor.shape or array.dtype != tensor.dtype:
            raise MavcgError(f"{path}: out ({tensor.name}): {_mismatch(array, tensor)}")
        if not array.flags.carray:
            raise MavcgError(
                f"{path}: out ({tensor.name}): is not contiguous, aligned and writeable; give such an array"
            )
    return outputs


def _array_of(path: Path, value: Any, tensor: Tensor) -> Array:
    """Return the value for an input as an array, through DLPack if it is of another library. Raises: MavcgError."""
    if isinstance(value, ndarray) or not hasattr(value, "__dlpack__"):
        return np.asarray(value)
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise MavcgError(
            f"{path}: input ({tensor.name}): cannot be read by DLPack ({error}); give a tensor in the memory "
            "of the CPU, without gradients, or a NumPy array"
        ) from error


def _mismatch(array: Array, tensor: Tensor) -> str:
    """Return how an array differs from the model's input, and what to do."""
    if array.shape != tensor.shape:
        return f"shape {list(array.shape)}, the model takes {list(tensor.shape)}; give an array of that shape"
    return f"{array.dtype}, the model takes {tensor.dtype}; convert it with .astype('{tensor.dtype}')"
