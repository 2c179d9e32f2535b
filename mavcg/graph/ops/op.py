"""Definitions of operators: inputs, attributes and type inference, with helpers for inference functions."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Array, AttrValue, Node, TensorType

FLOATS = ("f32", "f16", "bf16", "f64")
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
NUMBERS = (*FLOATS, *SIGNED, *UNSIGNED)
ANY = (*NUMBERS, "bool")

MOST_BYTES = 1 << 40  # maximum size of a tensor; larger shapes are a mistake or an attack
MOST = 1 << 31  # maximum value of an attribute that counts positions


@dataclass(frozen=True)
class Attr:
    """An attribute of an operator.

    kind: "bool", "int", "float", "str", "ints" or "floats". default: None if every node must have the attribute.
    length: fixed length of a tuple, or None. choices: allowed values of a str; () allows any.
    """

    kind: str
    default: AttrValue | None = None
    length: int | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Operator:
    """An operator of the table.

    inputs: names in order; a name that ends in `?` may be absent, `...` marks one or more inputs. attrs: in the order
    of act_args, if the operator is an activation. infer: function that returns the types of the outputs.
    """

    name: str
    inputs: tuple[str, ...]
    infer: Callable[["TypedNode"], tuple[TensorType, ...]]
    attrs: Mapping[str, Attr]

    @property
    def least(self) -> int:
        """Minimum number of inputs."""
        return sum(not name.endswith("?") for name in self.inputs)

    @property
    def most(self) -> int | None:
        """Maximum number of inputs; None for any number."""
        return None if self.inputs[-1].endswith("...") else len(self.inputs)


def node_location(node: Node) -> str:
    """Return a node's name for messages: the name in the user's file, else the name of its first output."""
    name = node.origin or next((n for n in node.outputs if n), "")
    return f"node '{name}' ({node.op})" if name else f"a node {node.op}"


def check_type(where: str, name: str, tensor: TensorType) -> None:
    """Check a tensor type. Raises: MavcgError for an unknown dtype, a negative dimension, or more than MOST_BYTES."""
    if tensor.dtype not in DTYPES or any(d < 0 for d in tensor.shape):
        raise MavcgError(f"{where}: %{name} is {tensor}, which is not a tensor type")
    if math.prod(max(1, d) for d in tensor.shape) * DTYPES[tensor.dtype].itemsize > MOST_BYTES:
        raise MavcgError(f"{where}: %{name} is {tensor}; no tensor may be larger than {MOST_BYTES >> 40} TiB")


@dataclass(frozen=True)
class TypedNode:
    """A node with the types of its inputs, from which the types of its outputs are inferred.

    types: types of the inputs in order, None for absent ones. values: arrays of constant inputs, None for others.
    """

    op: Operator
    node: Node
    types: tuple[TensorType | None, ...]
    values: tuple[Array | None, ...]

    def attr(self, name: str) -> Any:
        """Return the value of an attribute."""
        return self.node.attr(name)

    def fail(self, problem: str) -> MavcgError:
        """Return an error that names the node, its inputs and the problem."""
        given = ", ".join(str(t) if t else "_" for t in self.types)
        return MavcgError(f"{node_location(self.node)}: {problem}; its inputs are {given}")

    def maybe(self, name: str) -> TensorType | None:
        """Return the type of an input by its name; None if it is absent."""
        at = [n.rstrip("?") for n in self.op.inputs].index(name)
        return self.types[at]

    def value(self, name: str) -> Array | None:
        """Return the array of a constant input by its name; None for other inputs."""
        return self.values[[n.rstrip("?") for n in self.op.inputs].index(name)]

    def type(self, name: str, dtypes: Sequence[str] = ANY, rank: int | None = None, rank_min: int = 0) -> TensorType:
        """Return the type of a required input. Raises: MavcgError for an absent input, or another dtype or rank than
        these."""
        tensor = self.maybe(name)
        if tensor is None:
            raise self.fail(f"its input {name} is missing")
        if tensor.dtype not in dtypes:
            raise self.fail(f"{name} is {tensor.dtype}; supported: {', '.join(dtypes)}")
        if rank is not None and len(tensor.shape) != rank:
            raise self.fail(f"{name} has {len(tensor.shape)} dimensions where {rank} are needed")
        if len(tensor.shape) < rank_min:
            raise self.fail(f"{name} has {len(tensor.shape)} dimensions where at least {rank_min} are needed")
        return tensor

    def same_dtype(self, *names: str) -> None:
        """Check that the inputs of these names have the same dtype, except absent ones. Raises: MavcgError."""
        if len({t.dtype for t in map(self.maybe, names) if t is not None}) > 1:
            raise self.fail(f"{', '.join(names)} differ in type")

    def same_or_wider_dtype(self, x: str, *names: str) -> None:
        """Check that the inputs of these names, except absent ones, have x's dtype, or f32 where x is f16 or bf16:
        parameters of its arithmetic that are added or multiplied before the result is rounded. Raises: MavcgError."""
        dtype = self.type(x).dtype
        allowed = (dtype, "f32") if dtype in ("f16", "bf16") else (dtype,)
        for name in names:
            tensor = self.maybe(name)
            if tensor is not None and tensor.dtype not in allowed:
                raise self.fail(f"{name} is {tensor.dtype} where {x} is {self.type(x).dtype}")

    def axis(self, rank: int, name: str = "axis") -> int:
        """Return an attribute that is an axis, counted from 0. Raises: MavcgError for an axis out of range."""
        axis: int = self.attr(name)
        if not 0 <= axis < rank:
            raise self.fail(f"{name} is {axis}; it must be 0 to {rank - 1}")
        return axis

    def entries(self, name: str, rank: int) -> tuple[int, ...]:
        """Return an attribute with an entry per dimension. Raises: MavcgError for another number of entries."""
        values: tuple[int, ...] = self.attr(name)
        if len(values) != rank:
            raise self.fail(f"{name} has {len(values)} entries for {rank} dimensions")
        return values

    def at_least(self, least: int, *names: str) -> None:
        """Check that integer attributes, or all entries of tuples, are within least .. MOST. Raises: MavcgError."""
        for name in names:
            value = self.attr(name)
            if any(not least <= v <= MOST for v in (value if isinstance(value, tuple) else (value,))):
                raise self.fail(f"{name} is {value}; it must be {least} to {MOST}")

    def broadcast(self, *shapes: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape that NumPy broadcasts these to. Raises: MavcgError for incompatible shapes."""
        shape = broadcast_shape(*shapes)
        if shape is None:
            raise self.fail("shapes that do not broadcast")
        return shape

    def broadcasts_to(self, name: str, shape: tuple[int, ...]) -> None:
        """Check that an input, unless absent, broadcasts to exactly this shape. Raises: MavcgError."""
        tensor = self.maybe(name)
        if tensor is not None and broadcast_shape(tensor.shape, shape) != shape:
            raise self.fail(f"{name} {tensor} does not broadcast to [{','.join(map(str, shape))}]")


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape that NumPy broadcasts these to; None for incompatible shapes."""
    rank = max(map(len, shapes))
    shape = []
    for lengths in zip(*((1,) * (rank - len(s)) + s for s in shapes), strict=True):
        others = {length for length in lengths if length != 1}
        if len(others) > 1:
            return None
        shape.append(others.pop() if others else 1)
    return tuple(shape)
