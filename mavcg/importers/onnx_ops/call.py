"""What a handler gets: one ONNX node with its inputs, attributes and opset, and the words to answer with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.importers.onnx_emit import Emitter, NeedsConstant, Value, constant
from mavcg.importers.onnx_proto import Unsupported

MOST_INTS = 64  # entries of a tensor that gives axes, shapes, pads: more than any rank needs


class UnsupportedOp(Unsupported):
    """An operator, or a form of it, that there is nothing for."""


@dataclass(frozen=True)
class Call:
    """One node of the file.

    op: with its domain where that is not ONNX's own. origin: the node's name. version: of the opset that its domain is
    imported with. inputs: None for those absent. names: what the file calls the inputs. attrs: as
    mavcg.importers.onnx_proto reads them. wanted: for each output, whether anybody reads it.
    """

    emitter: Emitter
    op: str
    origin: str
    version: int
    inputs: tuple[Value | None, ...]
    names: tuple[str, ...]
    attrs: dict[str, Any]
    wanted: tuple[bool, ...]

    @property
    def place(self) -> str:
        """How messages name the node."""
        return f"node '{self.origin}' ({self.op})"

    def fail(self, what: str) -> MavcgError:
        """An error in this node."""
        return MavcgError(f"{self.place}: {what}")

    def unsupported(self, what: str, supported: str) -> UnsupportedOp:
        """An error: a form of the operator that there is nothing for."""
        return UnsupportedOp(f"{self.place}: {what}; supported: {supported}")

    def add(self, op: str, *inputs: Value | None, **attrs: Any) -> Value:
        """The result of an operator of graphs."""
        return self.emitter.add(op, inputs, self.origin, **attrs)

    # Inputs

    def input(self, i: int, rank: int | None = None, rank_min: int = 0) -> Value:
        """An input that must be there. Raises: MavcgError where it is not, or its rank is another."""
        value = self.maybe(i)
        if value is None:
            raise self.fail(f"its input {i} is missing")
        if (rank is not None and value.rank != rank) or value.rank < rank_min:
            need = f"{rank}" if rank is not None else f"at least {rank_min}"
            raise self.fail(f"its input {i} ({self.names[i]}) is {value.type} where {need} dimensions are needed")
        return value

    def maybe(self, i: int) -> Value | None:
        """An input that may be absent."""
        return self.inputs[i] if i < len(self.inputs) else None

    def all_inputs(self) -> list[Value]:
        """The inputs of an operator that takes any number. Raises: MavcgError where there is none, or one is absent."""
        if not self.inputs:
            raise self.fail("it has no inputs")
        return [self.input(i) for i in range(len(self.inputs))]

    def array(self, i: int, what: str) -> Array:
        """An input that must be known at import. Raises: NeedsConstant where it is not."""
        value = self.input(i)
        if value.array is None:
            raise NeedsConstant(
                f"{self.place}: its input {what} (%{self.names[i]}) is known only when the model runs; "
                "a constant, or what follows from shapes alone, is needed",
                self.names[i],
            )
        return value.array

    def maybe_array(self, i: int, what: str) -> Array | None:
        """An input that must be known at import where it is there."""
        return None if self.maybe(i) is None else self.array(i, what)

    def ints(self, i: int, what: str) -> tuple[int, ...]:
        """An input that is a list of whole numbers known at import: axes, a shape, pads."""
        array = self.array(i, what)
        if array.dtype.kind not in "iu" or array.ndim > 1 or array.size > MOST_INTS:
            value = self.input(i)
            raise self.fail(f"its input {what} is {value.type}; a list of at most {MOST_INTS} whole numbers is needed")
        return tuple(int(v) for v in array.reshape(-1))

    def maybe_ints(self, i: int, what: str) -> tuple[int, ...] | None:
        """As `ints`, None where the input is absent."""
        return None if self.maybe(i) is None else self.ints(i, what)

    # Attributes

    def attr_int(self, name: str, default: int | None = None) -> int:
        """A whole number. Raises: MavcgError where it is of another kind, or absent without a default."""
        return self._attr(name, default, int, "a whole number")  # type: ignore[no-any-return]

    def attr_float(self, name: str, default: float | None = None) -> float:
        """A number."""
        return self._attr(name, default, float, "a number")  # type: ignore[no-any-return]

    def attr_str(self, name: str, default: str | None = None) -> str:
        """A word."""
        return self._attr(name, default, str, "a word")  # type: ignore[no-any-return]

    def attr_bool(self, name: str, default: bool = False) -> bool:
        """A whole number that stands for a truth."""
        return self.attr_int(name, int(default)) != 0

    def attr_ints(self, name: str, default: Sequence[int] | None = None, length: int | None = None) -> tuple[int, ...]:
        """A list of whole numbers, of this length where that is given."""
        found = self._attr(name, tuple(default) if default is not None else None, tuple, "a list of whole numbers")
        if not all(isinstance(v, int) for v in found):
            raise self.fail(f"attribute {name} is not a list of whole numbers")
        if length is not None and len(found) != length:
            raise self.fail(f"attribute {name} has {len(found)} entries where {length} are needed")
        return tuple(found)

    def maybe_ints_attr(self, name: str) -> tuple[int, ...] | None:
        """A list of whole numbers, None where the attribute is absent."""
        return self.attr_ints(name) if name in self.attrs else None

    def _attr(self, name: str, default: Any, kind: type, what: str) -> Any:
        value = self.attrs.get(name, default)
        if value is None:
            raise self.fail(f"its attribute {name} is missing")
        if kind is float and isinstance(value, int):
            value = float(value)
        if not isinstance(value, kind):
            raise self.fail(f"attribute {name} is not {what}")
        return value

    # Axes

    def axis(self, axis: int, rank: int, what: str = "axis") -> int:
        """A dimension counted from 0. Raises: MavcgError where there is no such dimension."""
        if not -rank <= axis < rank:
            raise self.fail(f"{what} {axis} where a tensor of {rank} dimensions has {-rank} to {rank - 1}")
        return axis % rank

    def axes(self, axes: Sequence[int], rank: int) -> tuple[int, ...]:
        """Dimensions counted from 0, in the order given. Raises: MavcgError where one comes twice."""
        found = tuple(self.axis(a, rank, "axes") for a in axes)
        if len(set(found)) != len(found):
            raise self.fail(f"axes {list(axes)}: a dimension comes twice")
        return found

    # Small words that many handlers use

    def scalar(self, number: float | int, like: Value) -> Value:
        """A known scalar of the same type as a value."""
        return constant(np.asarray(number), like.dtype)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """The same elements in another shape; nothing where it has that shape."""
        return x if x.shape == tuple(shape) else self.add("reshape", x, shape=tuple(shape))

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        """Dimensions in another order; nothing where that is the order they have."""
        return x if list(perm) == list(range(x.rank)) else self.add("transpose", x, perm=tuple(perm))

    def cast(self, x: Value, dtype: str) -> Value:
        """Elements of another type; nothing where they are of it."""
        return x if x.dtype == dtype else self.add("cast", x, to=dtype)


Results = Value | tuple[Value | None, ...]
Handler = Callable[[Call], Results]
