"""The error for inputs whose dimensions a file leaves free: one message about all of them, each by its name."""

from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.errors import MavcgError


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
