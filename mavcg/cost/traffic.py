"""Traffic between a memory and the tiles in front of it: equations 6.1 to 6.5 of e-PlaNNer, unchanged.

As in the paper, without the halo that neighbouring tiles of the input share; choose/layer_model/halo.py counts it. In
the paper only the operand of the dataflow stays from tile to tile. A cache may keep further operands, or not even that
one; `kept` then names the operands that stay.
"""

from collections.abc import Collection
from dataclasses import dataclass

from mavcg.choose.layer_model.layer import ConvLayer
from mavcg.choose.layer_model.tiling import Dataflow, Tile, Tiling, trips


@dataclass(frozen=True)
class Traffic:
    """Off-chip bytes of a layer, read and written, by operand; output_bytes includes partial sums."""

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


def reload_input(layer: ConvLayer, tiling: Tiling, stationary: Collection[Dataflow] | None = None) -> int:
    """Return the number of times that the input is read: equation 6.2, or 1 if it stays on chip."""
    if _stays(Dataflow.INPUT, tiling, stationary):
        return 1
    n = trips(layer, tiling.tile)
    return n["KW"] * n["KH"] * n["OC"]


def reload_weight(layer: ConvLayer, tiling: Tiling, stationary: Collection[Dataflow] | None = None) -> int:
    """Return the number of times that the weights are read: equation 6.3, or 1 if they stay on chip."""
    if _stays(Dataflow.WEIGHT, tiling, stationary):
        return 1
    n = trips(layer, tiling.tile)
    return n["OW"] * n["OH"]


def reload_psum(layer: ConvLayer, tile: Tile) -> int:
    """Return the number of transfers of each partial sum, out and back in (equation 6.4)."""
    n = trips(layer, tile)
    return 2 * (n["KW"] * n["KH"] * n["IC"] - 1)


def reload_output(layer: ConvLayer, tiling: Tiling, stationary: Collection[Dataflow] | None = None) -> int:
    """Return the number of times that the output is moved: equation 6.5, or 1 if it stays on chip."""
    if _stays(Dataflow.OUTPUT, tiling, stationary):
        return 1
    return reload_psum(layer, tiling.tile) + 1


def traffic(layer: ConvLayer, tiling: Tiling, stationary: Collection[Dataflow] | None = None) -> Traffic:
    """Return the traffic of a layer by equation 6.1. Elements have the sizes of layer.items.

    stationary: operands that stay from one tile to the next; None: only the operand of the dataflow, as in the paper.
    """
    items = layer.items
    psums = reload_output(layer, tiling, stationary) - 1
    return Traffic(
        layer.input_elements * items.input * reload_input(layer, tiling, stationary),
        layer.weight_elements * items.weight * reload_weight(layer, tiling, stationary),
        layer.output_elements * (items.output + psums * items.psum),
    )


def _stays(operand: Dataflow, tiling: Tiling, stationary: Collection[Dataflow] | None) -> bool:
    return operand is tiling.dataflow if stationary is None else operand in stationary


def no_reload(layer: ConvLayer) -> Traffic:
    """Return the traffic if every operand is moved once: the "optimal" line of the paper's figure 8.2."""
    items = layer.items
    return Traffic(
        layer.input_elements * items.input,
        layer.weight_elements * items.weight,
        layer.output_elements * items.output,
    )
