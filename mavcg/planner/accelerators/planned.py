"""Result of a search: a layer with the tiling that it found best."""

from dataclasses import dataclass

from mavcg.errors import MavcgError
from mavcg.planner.layer_model.layer import ConvLayer
from mavcg.planner.layer_model.roofline import Reached
from mavcg.planner.layer_model.tiling import Tiling


@dataclass(frozen=True)
class Planned:
    """A layer's plan. candidates: tilings that the search looked at or would have had to (table 8.5 counts them)."""

    layer: ConvLayer
    tiling: Tiling
    reached: Reached
    candidates: int


class NoTiling(MavcgError):
    """No tile of a layer fits the memories: the message names the layer and the smallest memory that would do."""
