"""Shapes that a file declares for its tensors, compared with the shapes that the import infers.

A contradiction is refused: either the file is wrong, or the operator is computed differently from what its author saw.
A free dimension matches every length. The file's lengths hold for the shapes of inputs that the file declares. So if
inputs have free dimensions, only shapes that have a free dimension too are compared, in their other dimensions; all
others may come from a run with other lengths. If an input gets another length than the file fixes, none is compared.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mavcg.errors import MavcgError

Dims = tuple[int | None, ...]  # None: a free dimension

ALL, FREE, NONE = "all", "free", "none"  # which declared shapes are compared; FREE: those with a free dimension


class GivenShapes(dict[str, tuple[int, ...]]):
    """Shapes of a model's inputs by name, for the import.

    ignore_declared: the shapes that the file declares for other tensors are not compared with the inferred ones.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]] = {}, ignore_declared: bool = False) -> None:
        super().__init__(shapes)
        self.ignore_declared = ignore_declared


AS_DECLARED = GivenShapes()


def ignores_declared(shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Return True if shapes for the import say that those that the file declares are not compared."""
    return isinstance(shapes, GivenShapes) and shapes.ignore_declared


class DeclaredShapeError(MavcgError):
    """Raised if the inferred shape of a tensor contradicts the one that the file declares."""


@dataclass(frozen=True)
class DeclaredShapes:
    """The shapes that a graph or a branch declares. dims: by tensor. compared: ALL, FREE or NONE."""

    dims: Mapping[Hashable, Dims] = field(default_factory=dict)
    compared: str = NONE

    def inside(self, dims: Mapping[Hashable, Dims]) -> "DeclaredShapes":
        """Return the shapes that a branch or a function of the graph declares."""
        return replace(self, dims=dims)

    def check(
        self, tensor: Hashable, label: str, location: str, shape: tuple[int, ...], counted: int | None = None
    ) -> None:
        """Compare an inferred shape with the declared one, if there is one. label, location: tensor and node. counted:
        an axis whose length is the longest of those that runs have; the file may declare that of one run.

        Raises: DeclaredShapeError naming node, tensor and both shapes.
        """
        dims = self.dims.get(tensor)
        if dims is None or self.compared == NONE or (self.compared == FREE and None not in dims):
            return
        if counted is not None:
            dims = tuple(None if axis == counted else length for axis, length in enumerate(dims))
        if len(dims) != len(shape) or any(d is not None and d != n for d, n in zip(dims, shape, strict=True)):
            raise DeclaredShapeError(
                f"{location}: the shape of {label} is {_text(shape)}, but the file declares {_text(dims)}; correct the "
                "file, or build with --ignore-declared-shapes"
            )


def compared_shapes(shapes: Mapping[str, tuple[int, ...]], free: bool, changed: bool = False) -> str:
    """Return which declared shapes are compared.

    shapes: of inputs, as the import gets them. free: inputs have free dimensions. changed: a fixed one is replaced.
    """
    if changed or ignores_declared(shapes):
        return NONE
    return FREE if free else ALL


def _text(dims: Dims) -> str:
    return "x".join("?" if d is None else str(d) for d in dims) or "that of a scalar"


@dataclass(frozen=True)
class FreeInput:
    """An input with free dimensions. dims: lengths, and a name for each free dimension, "" if the file has none.

    None: the file does not state the input's shape.
    """

    name: str
    dims: tuple[int | str, ...] | None

    def dimension_name(self, i: int) -> str:
        """Return the name of a free dimension, which is its own also if the file has none."""
        return str((self.dims or ())[i]) or f"{self.name}.{i}"

    def question(self) -> str:
        """Return what has to be known: input 'x' has free dimensions 2 (height) and 3 (width)."""
        if self.dims is None:
            return f"input '{self.name}' has no shape in the file"
        named = [f"{i} ({self.dimension_name(i)})" for i, d in enumerate(self.dims) if isinstance(d, str)]
        listed = " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
        return f"input '{self.name}' has the free dimension{'s' if len(named) > 1 else ''} {listed}"

    def option(self) -> str:
        """Return the option that gives the shape: --shape x=1x3x<height>x<width>."""
        dims = ["<shape>"] if self.dims is None else self.dims
        return f"--shape {self.name}=" + "x".join(
            f"<{self.dimension_name(i)}>" if self.dims and isinstance(d, str) else str(d) for i, d in enumerate(dims)
        )


def free_dimensions_error(inputs: Sequence[FreeInput]) -> MavcgError:
    """Return the error that lists all free dimensions, with the options that give their lengths."""
    questions, options = "; ".join(i.question() for i in inputs), " ".join(i.option() for i in inputs)
    return MavcgError(f"{questions}; give lengths, as {options}")
