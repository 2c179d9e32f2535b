"""Definition of an operator: its inputs, its attributes, and how its output types follow from them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Array, AttrValue, Node, TensorType

FLOATS = ("f32", "f16", "f64")
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
NUMBERS = (*FLOATS, *SIGNED, *UNSIGNED)
ANY = (*NUMBERS, "bool")

MOST_BYTES = 1 << 40  # no tensor is larger: beyond, shapes are somebody's mistake, or malice
MOST = 1 << 31  # nor is a number in an attribute that counts positions


@dataclass(frozen=True)
class Attr:
    """An attribute.

    kind: "bool", "int", "float", "str", "ints" or "floats". default: None where every node must say it itself.
    length: of a tuple, where it is fixed. choices: of a str, where not every word will do.
    """

    kind: str
    default: AttrValue | None = None
    length: int | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Operator:
    """An operator of the table.

    inputs: their names in order; one with `?` at its end may be absent, one with `...` stands for one or more.
    attrs: in the order in which a fused activation's act_args gives them. infer: the types of the outputs.
    """

    name: str
    inputs: tuple[str, ...]
    infer: Callable[["TypedNode"], tuple[TensorType, ...]]
    attrs: Mapping[str, Attr]

    @property
    def least(self) -> int:
        """Least number of inputs."""
        return sum(not name.endswith("?") for name in self.inputs)

    @property
    def most(self) -> int | None:
        """Greatest number of inputs; None for any number."""
        return None if self.inputs[-1].endswith("...") else len(self.inputs)


def node_location(node: Node) -> str:
    """Return the node's name in messages: that of the user's file, else of its first output."""
    name = node.origin or next((n for n in node.outputs if n), "")
    return f"node '{name}' ({node.op})" if name else f"a node {node.op}"


def check_type(where: str, name: str, tensor: TensorType) -> None:
    """Raise MavcgError for a dtype that graphs do not have, a negative dimension, or a size that no machine has."""
    if tensor.dtype not in DTYPES or any(d < 0 for d in tensor.shape):
        raise MavcgError(f"{where}: %{name} is {tensor}, which is no type")
    if math.prod(max(1, d) for d in tensor.shape) * DTYPES[tensor.dtype].itemsize > MOST_BYTES:
        raise MavcgError(f"{where}: %{name} is {tensor}; no tensor may be larger than {MOST_BYTES >> 40} TiB")


@dataclass(frozen=True)
class TypedNode:
    """A node with the types of its inputs, from which those of its outputs follow.

    types: of its inputs in order, None for those absent. values: the arrays of those that are constants, else None.
    """

    op: Operator
    node: Node
    types: tuple[TensorType | None, ...]
    values: tuple[Array | None, ...]

    def attr(self, name: str) -> Any:
        """Return the value of an attribute."""
        return self.node.attr(name)

    def fail(self, what: str) -> MavcgError:
        """Return an error that names the node, its inputs and what is wrong."""
        given = ", ".join(str(t) if t else "_" for t in self.types)
        return MavcgError(f"{node_location(self.node)}: {what}; its inputs are {given}")

    def maybe(self, name: str) -> TensorType | None:
        """Return the type of an input by its name; None where it is absent."""
        at = [n.rstrip("?") for n in self.op.inputs].index(name)
        return self.types[at]

    def value(self, name: str) -> Array | None:
        """Return the array of an input that is a constant; None for others."""
        return self.values[[n.rstrip("?") for n in self.op.inputs].index(name)]

    def type(self, name: str, dtypes: Sequence[str] = ANY, rank: int | None = None, rank_min: int = 0) -> TensorType:
        """Return the type of an input that must be there. Raises: MavcgError for another dtype or rank than these."""
        found = self.maybe(name)
        if found is None:
            raise self.fail(f"its input {name} is missing")
        if found.dtype not in dtypes:
            raise self.fail(f"{name} is {found.dtype}; supported: {', '.join(dtypes)}")
        if rank is not None and len(found.shape) != rank:
            raise self.fail(f"{name} has {len(found.shape)} dimensions where {rank} are needed")
        if len(found.shape) < rank_min:
            raise self.fail(f"{name} has {len(found.shape)} dimensions where at least {rank_min} are needed")
        return found

    def same_dtype(self, *names: str) -> None:
        """Raise MavcgError where the inputs of these names differ in dtype; absent ones do not count."""
        if len({t.dtype for t in map(self.maybe, names) if t is not None}) > 1:
            raise self.fail(f"{', '.join(names)} differ in type")

    def axis(self, rank: int, name: str = "axis") -> int:
        """Return an attribute that counts dimensions from 0. Raises: MavcgError where it is no dimension."""
        axis: int = self.attr(name)
        if not 0 <= axis < rank:
            raise self.fail(f"{name} {axis} where 0 to {rank - 1} are dimensions")
        return axis

    def entries(self, name: str, rank: int) -> tuple[int, ...]:
        """Return an attribute with one entry a dimension. Raises: MavcgError for another count."""
        values: tuple[int, ...] = self.attr(name)
        if len(values) != rank:
            raise self.fail(f"{name} has {len(values)} entries for {rank} dimensions")
        return values

    def at_least(self, least: int, *names: str) -> None:
        """Raise MavcgError where a whole number, or one of a tuple of them, is smaller, or larger than MOST."""
        for name in names:
            value = self.attr(name)
            if any(not least <= v <= MOST for v in (value if isinstance(value, tuple) else (value,))):
                raise self.fail(f"{name} {value} where {least} to {MOST} are possible")

    def broadcast(self, *shapes: tuple[int, ...]) -> tuple[int, ...]:
        """Return NumPy's common shape. Raises: MavcgError where there is none."""
        found = broadcast_shape(*shapes)
        if found is None:
            raise self.fail("shapes that do not broadcast")
        return found

    def spreads(self, name: str, shape: tuple[int, ...]) -> None:
        """Raise MavcgError where the input of this name, if there, does not broadcast to just this shape."""
        found = self.maybe(name)
        if found is not None and broadcast_shape(found.shape, shape) != shape:
            raise self.fail(f"{name} {found} does not broadcast to [{','.join(map(str, shape))}]")


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape that NumPy broadcasts these to; None where they do not go together."""
    rank = max(map(len, shapes))
    found = []
    for lengths in zip(*((1,) * (rank - len(s)) + s for s in shapes), strict=True):
        others = {length for length in lengths if length != 1}
        if len(others) > 1:
            return None
        found.append(others.pop() if others else 1)
    return tuple(found)
