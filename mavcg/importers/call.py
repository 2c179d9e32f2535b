"""The interface between importers and handlers: one node of a file with its inputs, and how to emit its result."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.importers.emitter import Emitter, Value, constant
from mavcg.importers.limits import MOST_INTS, UnsupportedOp


@dataclass(frozen=True)
class NodeCall:
    """One node of a file. origin: what messages and reports call it. inputs: None for those absent."""

    emitter: Emitter
    op: str
    origin: str
    inputs: tuple[Value | None, ...]

    @property
    def location(self) -> str:
        """Return the node's name for error messages."""
        return f"node '{self.origin}' ({self.op})"

    def fail(self, what: str) -> MavcgError:
        """Return an error in this node."""
        return MavcgError(f"{self.location}: {what}")

    def unsupported(self, what: str, supported: str) -> UnsupportedOp:
        """Return an error: a form of the operator that there is nothing for."""
        return UnsupportedOp(f"{self.location}: {what}; supported: {supported}")

    def add(self, op: str, *inputs: Value | None, **attrs: Any) -> Value:
        """Return the result of an operator of graphs."""
        return self.emitter.add(op, inputs, self.origin, **attrs)

    # Inputs

    def input(self, i: int, rank: int | None = None, rank_min: int = 0) -> Value:
        """Return an input that must be there. Raises: MavcgError where it is not, or its rank is another."""
        value = self.maybe(i)
        if value is None:
            raise self.fail(f"its input {i} is missing")
        if (rank is not None and value.rank != rank) or value.rank < rank_min:
            need = f"{rank}" if rank is not None else f"at least {rank_min}"
            raise self.fail(f"{self.input_name(i)} is {value.type} where {need} dimensions are needed")
        return value

    def maybe(self, i: int) -> Value | None:
        """Return an input that may be absent."""
        return self.inputs[i] if i < len(self.inputs) else None

    def input_name(self, i: int) -> str:
        """Return an input's name for error messages."""
        return f"its input {i}"

    def array(self, i: int, what: str) -> Array:
        """Return an input that must be known at import. Raises: MavcgError where it is not."""
        value = self.input(i)
        if value.array is None:
            raise self.not_known(i, what)
        return value.array

    def not_known(self, i: int, what: str) -> MavcgError:
        """Return an error: an input that is known only at run time."""
        return self.fail(
            f"its input {what} is known only when the model runs; it must be a constant, or follow from shapes"
        )

    def ints(self, i: int, what: str, length: int | None = None) -> tuple[int, ...]:
        """Return an input that is whole numbers known at import, of this length where that is given: axes, a shape,
        pads."""
        array = self.array(i, what)
        if array.dtype.kind not in "iu" or array.size > MOST_INTS:
            raise self.no_list(i, what)
        if length is not None and array.size != length:
            raise self.fail(f"its input {what} has {array.size} entries where {length} are needed")
        return tuple(int(v) for v in array.reshape(-1))

    def no_list(self, i: int, what: str) -> MavcgError:
        """Return an error: an input that is no list of whole numbers."""
        type = self.input(i).type
        return self.fail(f"its input {what} is {type}; a list of at most {MOST_INTS} whole numbers is needed")

    # Axes

    def axis(self, axis: int, rank: int, what: str = "axis") -> int:
        """Return a dimension counted from 0. Raises: MavcgError where there is no such dimension."""
        if not -rank <= axis < rank:
            raise self.fail(f"{what} {axis} where a tensor of {rank} dimensions has {-rank} to {rank - 1}")
        return axis % rank

    # Small words that many handlers use

    def scalar(self, number: float | int, like: Value) -> Value:
        """Return a known scalar of the same type as a value."""
        return constant(np.asarray(number), like.dtype)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """Reshape a value; nothing is emitted if it has the shape."""
        return x if x.shape == tuple(shape) else self.add("reshape", x, shape=tuple(shape))

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        """Transpose a value; nothing is emitted for the identity."""
        return x if list(perm) == list(range(x.rank)) else self.add("transpose", x, perm=tuple(perm))

    def cast(self, x: Value, dtype: str) -> Value:
        """Cast a value; nothing is emitted if it has the type."""
        return x if x.dtype == dtype else self.add("cast", x, to=dtype)
