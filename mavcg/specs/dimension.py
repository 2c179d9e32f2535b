"""A dimension whose length is known in a run only, within bounds (docs/lengths.md)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Dimension:
    """A dimension of inputs and outputs. least, most: bounds of its length, both included; at least 1."""

    name: str
    least: int
    most: int

    def __str__(self) -> str:
        return f"{self.name} ({self.least} to {self.most})"
