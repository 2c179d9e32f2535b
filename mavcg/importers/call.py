"""The interface between importers and handlers: a node of a file with its inputs, and methods to emit its result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Array
from mavcg.importers.emitter import Emitter
from mavcg.importers.limits import LARGEST_BYTES, LARGEST_TENSOR_BYTES, MOST_INTS, UnsupportedOp, problem
from mavcg.importers.value import Value, constant


@dataclass(frozen=True)
class KnownAtBuild:
    """Names of inputs that must be known when a library is built. result: True if the results are known then, too."""

    inputs: tuple[str, ...] = ()
    result: bool = False


_Handler = TypeVar("_Handler", bound=Callable[..., Any])
_Value = TypeVar("_Value", bound=Value | None)
_Result = TypeVar("_Result")
_ATTRIBUTE = "known_at_build"


def known_at_build(*inputs: str, result: bool = False) -> Callable[[_Handler], _Handler]:
    """Declare, as a decorator of a handler, which inputs it needs to know; other inputs may be computed in a run.

    inputs: names of the inputs, as `NodeCall.array` and its relatives get them. result: True if the results are known
    at build too: the operator follows from these inputs, and from shapes.
    """

    def declare(handler: _Handler) -> _Handler:
        setattr(handler, _ATTRIBUTE, KnownAtBuild(inputs, result))
        return handler

    return declare


def declared_at_build(handler: Callable[..., Any]) -> KnownAtBuild:
    """Return what a handler declares; nothing has to be known for a handler without a declaration."""
    while isinstance(handler, partial):
        handler = handler.func
    return getattr(handler, _ATTRIBUTE, KnownAtBuild())


def results_of(made: _Value | tuple[_Value, ...]) -> tuple[_Value, ...]:
    """Return what a handler made as a tuple: one value, or several."""
    return made if isinstance(made, tuple) else (made,)


@dataclass(frozen=True)
class NodeCall:
    """A node of a file. origin: its name in messages and reports. inputs: None for absent ones."""

    emitter: Emitter
    op: str
    origin: str
    inputs: tuple[Value | None, ...]

    @property
    def location(self) -> str:
        """Return the node's name for error messages."""
        return f"node '{self.origin}' ({self.op})"

    def fail(self, problem: str) -> MavcgError:
        """Return an error that names this node. problem: the problem."""
        return MavcgError(f"{self.location}: {problem}")

    def unsupported(self, form: str, supported: str) -> UnsupportedOp:
        """Return the error for an unsupported form of the operator. form: the form. supported: what is supported
        instead."""
        return UnsupportedOp(f"{self.location}: {form}; supported: {supported}")

    def add(self, op: str, *inputs: Value | None, **attrs: Any) -> Value:
        """Add an operator to the graph and return its result."""
        return self.emitter.add(op, inputs, self.origin, **attrs)

    # Inputs

    def input(self, i: int, rank: int | None = None, rank_min: int = 0) -> Value:
        """Return a required input. Raises: MavcgError for an absent input, or another rank than `rank` or at least
        rank_min."""
        value = self.maybe(i)
        if value is None:
            raise self.fail(f"its input {i} is missing")
        if (rank is not None and value.rank != rank) or value.rank < rank_min:
            need = f"{rank}" if rank is not None else f"at least {rank_min}"
            raise self.fail(f"{self.input_name(i)} is {value.type} where {need} dimensions are needed")
        return value

    def maybe(self, i: int) -> Value | None:
        """Return an optional input; None if it is absent."""
        return self.inputs[i] if i < len(self.inputs) else None

    def input_name(self, i: int) -> str:
        """Return a description of an input for error messages."""
        return f"its input {i}"

    def array(self, i: int, label: str) -> Array:
        """Return the array of an input that must be known at import. Raises: MavcgError for an input that is not."""
        value = self.input(i)
        if value.array is None:
            raise self.not_known(i, label)
        return value.array

    def not_known(self, i: int, label: str, needed: str = "it must be a constant, or follow from shapes") -> MavcgError:
        """Return the error for an input that is known only at run time. needed: what would be supported."""
        return self.fail(f"its input {label} is known only when the model runs; {needed}")

    def in_run(self, i: int, label: str, make: Callable[..., _Result], *arguments: Any) -> _Result:
        """Return what `make` makes of this call and the arguments, where a run brings an input.

        Raises: MavcgError that the input is not known, for the reason of an UnsupportedOp of make.
        """
        try:
            return make(self, *arguments)
        except UnsupportedOp as error:
            raise self.not_known(i, label, problem(error)) from error

    def ints(self, i: int, label: str, length: int | None = None) -> tuple[int, ...]:
        """Return an input that is a list of integers known at import (axes, a shape, pads). length: required length, or
        None."""
        array = self.array(i, label)
        if array.dtype.kind not in "iu" or array.size > MOST_INTS:
            raise self.not_a_list(i, label)
        if length is not None and array.size != length:
            raise self.fail(f"its input {label} has {array.size} entries where {length} are needed")
        return tuple(int(v) for v in array.reshape(-1))

    def not_a_list(self, i: int, label: str) -> MavcgError:
        """Return the error for an input that is not a list of integers."""
        type = self.input(i).type
        return self.fail(f"its input {label} is {type}; a list of at most {MOST_INTS} whole numbers is needed")

    # Axes, shapes and sizes

    def axis(self, axis: int, rank: int, label: str = "axis") -> int:
        """Return an axis counted from 0; negative ones count from the end. Raises: MavcgError for an axis out of
        range."""
        if not -rank <= axis < rank:
            raise self.fail(f"{label} {axis} where a tensor of {rank} dimensions has {-rank} to {rank - 1}")
        return axis % rank

    def check_shape(self, shape: Sequence[int], like: Value) -> tuple[int, ...]:
        """Check and return a shape from the file. like: a value of the tensor's element type.

        Raises: MavcgError if a dimension is negative, or the tensor too large.
        """
        total = DTYPES[like.dtype].itemsize
        for length in shape:
            total *= max(1, length)  # Python integers do not overflow
        if any(length < 0 for length in shape) or total > LARGEST_TENSOR_BYTES:
            raise self.fail(f"a result of shape {list(shape)}; at most {LARGEST_TENSOR_BYTES} bytes, none negative")
        return tuple(shape)

    def check_size(self, elements: int, item_bytes: int) -> None:
        """Check the size of an array that the import would create. Raises: MavcgError if it is too large."""
        if elements * item_bytes > LARGEST_BYTES:
            made = f"a result of {elements} elements takes {elements * item_bytes} bytes"
            raise self.fail(f"{made}; at most {LARGEST_BYTES}")

    def count_size(self, elements: int, item_bytes: int) -> None:
        """Count an array that the import is about to create. Raises: MavcgError if it, or all together, are too
        large."""
        self.check_size(elements, item_bytes)
        self.emitter.count_bytes(elements * item_bytes, self.location)

    # Operators that many handlers use

    def scalar(self, number: float | int, like: Value) -> Value:
        """Return a known scalar of the same type as `like`."""
        return constant(np.asarray(number), like.dtype)

    def as_value(self, operand: Value | float, like: Value) -> Value:
        """Return a value as it is, and a number as a known scalar of the same type as `like`."""
        return operand if isinstance(operand, Value) else self.scalar(operand, like)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """Return a value reshaped; no node is added if it has the shape."""
        return x if x.shape == tuple(shape) else self.add("reshape", x, shape=tuple(shape))

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        """Return a value transposed; no node is added for the identity."""
        return x if list(perm) == list(range(x.rank)) else self.add("transpose", x, perm=tuple(perm))

    def cast(self, x: Value, dtype: str) -> Value:
        """Return a value cast to a type; no node is added if it has the type."""
        return x if x.dtype == dtype else self.add("cast", x, to=dtype)
