"""A dimension whose length is known in a run only, within bounds (docs/lengths.md)."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Dimension:
    """A dimension of inputs and outputs. least, most: bounds of its length, both included; at least 1."""

    name: str
    least: int
    most: int

    def __str__(self) -> str:
        return f"{self.name} ({self.least} to {self.most})"


def dimensions_text(dimensions: Sequence[Dimension]) -> str:
    """Return bounded dimension tokens (1 to 512), or bounded dimensions batch (1 to 8), tokens (1 to 512)."""
    return f"bounded dimension{'s' if len(dimensions) > 1 else ''} {', '.join(map(str, dimensions))}"


def remedy_text(dimensions: Sequence[Dimension]) -> str:
    """Return what to give in place of ranges for which no library can be built."""
    lengths = " and ".join(f"{dimension.least},{dimension.most}" for dimension in dimensions)
    place = "its place" if len(dimensions) == 1 else "their place"
    return f"give a list of lengths in {place}, such as {lengths}, for a size of each (docs/lengths.md)"
