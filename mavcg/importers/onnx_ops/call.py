"""The argument of ONNX handlers: a node with its inputs, attributes and opset, and methods to emit its result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.importers.call import NodeCall, results_of
from mavcg.importers.limits import NeedsConstant
from mavcg.importers.value import Value


@dataclass(frozen=True)
class OnnxCall(NodeCall):
    """A node of the file.

    op: operator, with its domain unless that is ONNX's own. version: opset version of its domain. names: names of the
    inputs in the file. attrs: attributes as onnx_proto.py reads them. required: for each output, True if it is read.
    """

    version: int
    names: tuple[str, ...]
    attrs: dict[str, Any]
    required: tuple[bool, ...]

    # Inputs

    def all_inputs(self) -> list[Value]:
        """Return the inputs of an operator with any number of them. Raises: MavcgError for no input or an absent
        one."""
        if not self.inputs:
            raise self.fail("it has no inputs")
        return [self.input(i) for i in range(len(self.inputs))]

    def input_name(self, i: int) -> str:
        return f"its input {i} ({self.names[i]})"

    def not_known(self, i: int, label: str, needed: str = "it must be a constant, or follow from shapes") -> MavcgError:
        """Return the error for a computed input, with the tensor's name, so that the importer can look for its
        origin."""
        name = self.names[i]
        return NeedsConstant(str(super().not_known(i, f"{label} (%{name})", needed)), name)

    def ints(self, i: int, label: str, length: int | None = None) -> tuple[int, ...]:
        if self.array(i, label).ndim > 1:
            raise self.not_a_list(i, label)
        return super().ints(i, label, length)

    def maybe_array(self, i: int, label: str) -> Array | None:
        """Return the array of an optional input, which must be known at import if present; else None."""
        return None if self.maybe(i) is None else self.array(i, label)

    def maybe_ints(self, i: int, label: str) -> tuple[int, ...] | None:
        """Return the integers of an optional input; None if it is absent."""
        return None if self.maybe(i) is None else self.ints(i, label)

    # Attributes

    def attr_int(self, name: str, default: int | None = None) -> int:
        """Return an integer attribute. Raises: MavcgError for another kind, or an absent one without a default."""
        return self._attr(name, default, int, "a whole number")  # type: ignore[no-any-return]

    def attr_float(self, name: str, default: float | None = None) -> float:
        """Return a float attribute, or the default, rounded to f32 as ONNX's floats are."""
        number = None if default is None else float(np.float32(default))
        return self._attr(name, number, float, "a number")  # type: ignore[no-any-return]

    def attr_str(self, name: str, default: str | None = None) -> str:
        """Return a string attribute, or the default."""
        return self._attr(name, default, str, "a word")  # type: ignore[no-any-return]

    def attr_bool(self, name: str, default: bool = False) -> bool:
        """Return an integer attribute (0 or 1) as a bool."""
        return self.attr_int(name, int(default)) != 0

    def attr_ints(self, name: str, default: Sequence[int] | None = None, length: int | None = None) -> tuple[int, ...]:
        """Return an attribute that is a list of integers. length: required length, or None."""
        return self._attr_list(name, default, length, int, "a list of whole numbers")

    def attr_floats(
        self, name: str, default: Sequence[float] | None = (), length: int | None = None
    ) -> tuple[float, ...]:
        """Return an attribute that is a list of numbers. length: required length, or None."""
        return tuple(map(float, self._attr_list(name, default, length, int | float, "a list of numbers")))

    def attr_tensor(self, name: str, default: Array | None = None) -> Array:
        """Return an attribute that is a tensor, or the default."""
        return self._attr(name, default, np.ndarray, "a tensor")  # type: ignore[no-any-return]

    def maybe_ints_attr(self, name: str) -> tuple[int, ...] | None:
        """Return an attribute that is a list of integers; None if it is absent."""
        return self.attr_ints(name) if name in self.attrs else None

    def _attr_list(
        self, name: str, default: Sequence[float] | None, length: int | None, kind: Any, expected: str
    ) -> tuple[Any, ...]:
        entries = self._attr(name, tuple(default) if default is not None else None, tuple, expected)
        if not all(isinstance(entry, kind) for entry in entries):
            raise self.fail(f"attribute {name} is not {expected}")
        if length is not None and len(entries) != length:
            raise self.fail(f"attribute {name} has {len(entries)} entries where {length} are needed")
        return tuple(entries)

    def _attr(self, name: str, default: Any, kind: type, expected: str) -> Any:
        value = self.attrs.get(name, default)
        if value is None:
            raise self.fail(f"its attribute {name} is missing")
        if kind is float and isinstance(value, int):
            value = float(value)
        if not isinstance(value, kind):
            raise self.fail(f"attribute {name} is not {expected}")
        return value

    # Axes

    def axes(self, axes: Sequence[int], rank: int) -> tuple[int, ...]:
        """Return axes counted from 0, in the given order. Raises: MavcgError for a repeated axis."""
        counted = tuple(self.axis(a, rank, "axes") for a in axes)
        if len(set(counted)) != len(counted):
            raise self.fail(f"axes {list(axes)}: a dimension is given twice")
        return counted


Results = Value | tuple[Value | None, ...]
Handler = Callable[[OnnxCall], Results]
DefinedHandler = Callable[[OnnxCall], Results | None]  # None: the standard's definition is expanded


def round_once(handler: Handler) -> Handler:
    """Decorate a handler that emits several operators so that it computes f16 in f32 and rounds only its results.

    Each operator of a graph rounds to f16; the squares of a norm, for example, would overflow from 256 on.
    """

    @wraps(handler)
    def import_rounded(call: OnnxCall) -> Results:
        if not any(value is not None and value.dtype == "f16" for value in call.inputs):
            return handler(call)
        dtype = call.input(0).dtype
        wide = (
            call.cast(value, "f32") if value is not None and value.dtype == "f16" else value for value in call.inputs
        )
        made = results_of(handler(replace(call, inputs=tuple(wide))))
        # Caches of few bits stay what they are.
        return tuple(
            value and (call.cast(value, dtype) if value.dtype == "f32" and not value.narrow else value)
            for value in made
        )

    return import_rounded
