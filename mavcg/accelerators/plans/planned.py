"""Result of a search: a layer with its best tiling."""

from dataclasses import dataclass

from mavcg.accelerators.plans.roofline import Reached
from mavcg.cost.layer import ConvLayer, Tiling
from mavcg.errors import MavcgError


@dataclass(frozen=True)
class Planned:
    """A layer's plan. candidates: tilings that the search evaluated or bounded (table 8.5 counts them)."""

    layer: ConvLayer
    tiling: Tiling
    reached: Reached
    candidates: int


class NoTiling(MavcgError):
    """Raised if no tile of a layer fits the memories; names the layer and the smallest memory that suffices."""
