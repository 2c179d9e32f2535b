"""What a primitive or a conversion between layouts costs, by whoever knows it: measured, modelled or imported."""

from dataclasses import dataclass
from typing import Protocol

from mavcg.primitive import Layout, Primitive, Scenario

MEASURED, MODELLED, IMPORTED = "measured", "modelled", "imported"
KINDS = (MEASURED, MODELLED, IMPORTED)


@dataclass(frozen=True)
class Cost:
    """Milliseconds of one run, and where they are from.

    kind: of KINDS; imported: measured on another machine, or at another time, and read from a file. spread_ms: between
    the quartiles of the rounds; runs: how many were timed; both 0 where nothing was measured.
    """

    ms: float
    kind: str
    spread_ms: float = 0.0
    runs: int = 0


class CostProvider(Protocol):
    """Whoever knows costs."""

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        """Of computing a scenario by a primitive; None where it is not known, or the primitive does not apply."""

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        """Of bringing an image of c channels, h rows, w columns into another layout in one step; None: not known."""


@dataclass(frozen=True)
class _FirstOf:
    providers: tuple[CostProvider, ...]

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        found = (provider.primitive(scenario, primitive) for provider in self.providers)
        return next((cost for cost in found if cost is not None), None)

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        found = (provider.conversion(layout_from, layout_to, c, h, w) for provider in self.providers)
        return next((cost for cost in found if cost is not None), None)


def first_of(*providers: CostProvider) -> CostProvider:
    """Each cost from the first of them that knows it."""
    return _FirstOf(providers)
