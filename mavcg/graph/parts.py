"""The parts of a graph, tensor types and nodes; mavcg.graph re-exports them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.errors import MavcgError

Array = NDArray[Any]
AttrValue = bool | int | float | str | tuple[int, ...] | tuple[float, ...]

DTYPES: Mapping[str, np.dtype[Any]] = MappingProxyType(
    {
        "f32": np.dtype(np.float32),
        "f16": np.dtype(np.float16),
        "f64": np.dtype(np.float64),
        "i8": np.dtype(np.int8),
        "u8": np.dtype(np.uint8),
        "i16": np.dtype(np.int16),
        "u16": np.dtype(np.uint16),
        "i32": np.dtype(np.int32),
        "u32": np.dtype(np.uint32),
        "i64": np.dtype(np.int64),
        "u64": np.dtype(np.uint64),
        "bool": np.dtype(np.bool_),
    }
)
_NAME_OF_DTYPE = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class TensorType:
    """The type of a tensor. dtype: a key of DTYPES. shape: dimensions, all known and at least 0."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def elements(self) -> int:
        """Number of elements; 1 for a scalar."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size of a dense array of this type, in bytes."""
        return self.elements * DTYPES[self.dtype].itemsize


def type_of(array: Array) -> TensorType:
    """Return the type of a NumPy array. Raises: MavcgError for an unsupported element type."""
    name = _NAME_OF_DTYPE.get(array.dtype.newbyteorder("="))
    if name is None:
        raise MavcgError(f"a constant of type {array.dtype}: not supported; there are {', '.join(DTYPES)}")
    return TensorType(name, tuple(int(d) for d in array.shape))


@dataclass(frozen=True)
class Node:
    """A node of a graph: one application of an operator.

    inputs: tensor names, "" for an absent optional input. attrs: all attributes of the operator, sorted by name,
    including defaults (mavcg.ops.nodes.make_node fills them in). origin: the node of the user's file that it comes
    from, for messages and reports.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: tuple[tuple[str, AttrValue], ...] = ()
    origin: str = ""

    def attr(self, name: str) -> Any:
        """Return the value of an attribute. Raises: KeyError for an unknown attribute."""
        for key, value in self.attrs:
            if key == name:
                return value
        raise KeyError(f"{self.op} has no attribute {name}")

    @property
    def output(self) -> str:
        """The node's only output."""
        (name,) = self.outputs
        return name

    def with_attrs(self, **changed: AttrValue) -> "Node":
        """Return the node with some attributes changed."""
        return replace(self, attrs=tuple(sorted((dict(self.attrs) | changed).items())))

    def with_inputs(self, names: Mapping[str, str]) -> "Node":
        """Return the node with inputs renamed by `names`, other inputs stay; the node itself if none is renamed."""
        inputs = tuple([names.get(i, i) for i in self.inputs])
        return self if inputs == self.inputs else replace(self, inputs=inputs)
