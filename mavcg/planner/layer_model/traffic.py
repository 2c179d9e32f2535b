"""Bytes that move between a memory and the tiles in front of it: equations 6.1 to 6.5 of e-PlaNNer, as they stand.

Without the halo that neighbouring tiles of the input share, as the paper has it; planner/layer_model/halo.py counts
that. In the paper one operand stays from tile to tile, that of the dataflow. A cache may keep others besides, or not
even that one: then `kept` names the operands that stay.
"""

from collections.abc import Collection
from dataclasses import dataclass

from mavcg.planner.layer_model.layer import ConvLayer
from mavcg.planner.layer_model.tiling import Dataflow, Tile, Tiling, trips


@dataclass(frozen=True)
class Traffic:
    """Off-chip bytes of a layer, read and written, by operand; output_bytes has partial sums in it."""

    input_bytes: int
    weight_bytes: int
    output_bytes: int

    @property
    def total_bytes(self) -> int:
        """Bytes of all operands (equation 6.1)."""
        return self.input_bytes + self.weight_bytes + self.output_bytes

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(
            self.input_bytes + other.input_bytes,
            self.weight_bytes + other.weight_bytes,
            self.output_bytes + other.output_bytes,
        )


def reload_input(layer: ConvLayer, tiling: Tiling, kept: Collection[Dataflow] | None = None) -> int:
    """Return the number of times that the input is read: equation 6.2, and 1 where it stays."""
    if _stays(Dataflow.INPUT, tiling, kept):
        return 1
    n = trips(layer, tiling.tile)
    return n["KW"] * n["KH"] * n["OC"]


def reload_weight(layer: ConvLayer, tiling: Tiling, kept: Collection[Dataflow] | None = None) -> int:
    """Return the number of times that the weights are read: equation 6.3, and 1 where they stay."""
    if _stays(Dataflow.WEIGHT, tiling, kept):
        return 1
    n = trips(layer, tiling.tile)
    return n["OW"] * n["OH"]


def reload_psum(layer: ConvLayer, tile: Tile) -> int:
    """Return the number of times that partial sums are moved, each once out and once in: equation 6.4."""
    n = trips(layer, tile)
    return 2 * (n["KW"] * n["KH"] * n["IC"] - 1)


def reload_output(layer: ConvLayer, tiling: Tiling, kept: Collection[Dataflow] | None = None) -> int:
    """Return the number of times that the output is moved: equation 6.5, and 1 where it stays."""
    if _stays(Dataflow.OUTPUT, tiling, kept):
        return 1
    return reload_psum(layer, tiling.tile) + 1


def traffic(layer: ConvLayer, tiling: Tiling, kept: Collection[Dataflow] | None = None) -> Traffic:
    """Return the bytes of a layer by equation 6.1. Partial sums take the bytes that layer.items says.

    kept: the operands that stay from one tile to the next; None: that of the dataflow alone, as in the paper.
    """
    items = layer.items
    psums = reload_output(layer, tiling, kept) - 1
    return Traffic(
        layer.input_elements * items.input * reload_input(layer, tiling, kept),
        layer.weight_elements * items.weight * reload_weight(layer, tiling, kept),
        layer.output_elements * (items.output + psums * items.psum),
    )


def _stays(operand: Dataflow, tiling: Tiling, kept: Collection[Dataflow] | None) -> bool:
    return operand is tiling.dataflow if kept is None else operand in kept


def no_reload(layer: ConvLayer) -> Traffic:
    """Return the traffic with every operand moved once: the paper's "optimal" line of figure 8.2."""
    items = layer.items
    return Traffic(
        layer.input_elements * items.input,
        layer.weight_elements * items.weight,
        layer.output_elements * items.output,
    )
