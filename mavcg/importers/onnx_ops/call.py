"""The argument of a handler: one ONNX node with its inputs, attributes and opset, and how to emit its result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.importers.call import NodeCall
from mavcg.importers.emitter import NeedsConstant, Value


@dataclass(frozen=True)
class OnnxCall(NodeCall):
    """One node of the file.

    op: with its domain where that is not ONNX's own. version: of the opset that its domain is imported with. names:
    what the file calls the inputs. attrs: as mavcg.importers.onnx_proto reads them. required: for each output, whether
    anybody reads it.
    """

    version: int
    names: tuple[str, ...]
    attrs: dict[str, Any]
    required: tuple[bool, ...]

    # Inputs

    def all_inputs(self) -> list[Value]:
        """Return the inputs of an operator that takes any number. Raises: MavcgError where there is none, or one is
        absent."""
        if not self.inputs:
            raise self.fail("it has no inputs")
        return [self.input(i) for i in range(len(self.inputs))]

    def input_name(self, i: int) -> str:
        return f"its input {i} ({self.names[i]})"

    def not_known(self, i: int, what: str) -> MavcgError:
        """Return an error that names the tensor, so that the import can look for its origin."""
        name = self.names[i]
        return NeedsConstant(str(super().not_known(i, f"{what} (%{name})")), name)

    def ints(self, i: int, what: str, length: int | None = None) -> tuple[int, ...]:
        if self.array(i, what).ndim > 1:
            raise self.no_list(i, what)
        return super().ints(i, what, length)

    def maybe_array(self, i: int, what: str) -> Array | None:
        """Return an input that must be known at import where it is there."""
        return None if self.maybe(i) is None else self.array(i, what)

    def maybe_ints(self, i: int, what: str) -> tuple[int, ...] | None:
        """Return integers as `ints` does, or None if the input is absent."""
        return None if self.maybe(i) is None else self.ints(i, what)

    # Attributes

    def attr_int(self, name: str, default: int | None = None) -> int:
        """Return a whole number. Raises: MavcgError where it is of another kind, or absent without a default."""
        return self._attr(name, default, int, "a whole number")  # type: ignore[no-any-return]

    def attr_float(self, name: str, default: float | None = None) -> float:
        """Return a number, of f32 as all of ONNX's: the default too."""
        number = None if default is None else float(np.float32(default))
        return self._attr(name, number, float, "a number")  # type: ignore[no-any-return]

    def attr_str(self, name: str, default: str | None = None) -> str:
        """Return a word."""
        return self._attr(name, default, str, "a word")  # type: ignore[no-any-return]

    def attr_bool(self, name: str, default: bool = False) -> bool:
        """Return a whole number that stands for a truth."""
        return self.attr_int(name, int(default)) != 0

    def attr_ints(self, name: str, default: Sequence[int] | None = None, length: int | None = None) -> tuple[int, ...]:
        """Return a list of whole numbers, of this length where that is given."""
        found = self._attr(name, tuple(default) if default is not None else None, tuple, "a list of whole numbers")
        if not all(isinstance(v, int) for v in found):
            raise self.fail(f"attribute {name} is not a list of whole numbers")
        if length is not None and len(found) != length:
            raise self.fail(f"attribute {name} has {len(found)} entries where {length} are needed")
        return tuple(found)

    def maybe_ints_attr(self, name: str) -> tuple[int, ...] | None:
        """Return a list of whole numbers, None where the attribute is absent."""
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

    def axes(self, axes: Sequence[int], rank: int) -> tuple[int, ...]:
        """Return the dimensions counted from 0, in the order given. Raises: MavcgError where one comes twice."""
        found = tuple(self.axis(a, rank, "axes") for a in axes)
        if len(set(found)) != len(found):
            raise self.fail(f"axes {list(axes)}: a dimension comes twice")
        return found


Results = Value | tuple[Value | None, ...]
Handler = Callable[[OnnxCall], Results]


def round_once(handler: Handler) -> Handler:
    """Let a handler that emits several operators compute f16 in f32, and round its results alone.

    Each operator of a graph rounds to f16: the squares of a norm would overflow from 256 on.
    """

    def import_rounded(call: OnnxCall) -> Results:
        if not any(value is not None and value.dtype == "f16" for value in call.inputs):
            return handler(call)
        dtype = call.input(0).dtype
        wide = (
            call.cast(value, "f32") if value is not None and value.dtype == "f16" else value for value in call.inputs
        )
        made = handler(replace(call, inputs=tuple(wide)))
        if isinstance(made, Value):
            return call.cast(made, dtype)
        return tuple(value and call.cast(value, dtype) for value in made)

    return import_rounded
