"""Order of a tiling's off-chip loops, and the bytes that move in that order; plans are written and counted by it.

The equations of chapter 6 (cost/traffic.py) ignore three effects: neighbouring tiles of the input overlap by the halo,
and both load it; a loop with one trip causes no reload, whatever the dataflow; rows that no window reads are never
loaded. The plans of plans/text move exactly the bytes counted here.
"""

from dataclasses import dataclass
from itertools import permutations

from mavcg.accelerators.plans.windows import axes, rows_read
from mavcg.cost.layer import ConvLayer, Dataflow, Tile, Tiling, trips
from mavcg.cost.traffic import Traffic

# For each operand the loops over which its tile does not change, outermost first; the dataflow names the operand.
# (Each tile of the kernel reads other rows of the input, so a loop over the kernel does change the input's tile.)
FREE = {Dataflow.WEIGHT: ("OH", "OW"), Dataflow.INPUT: ("OC",), Dataflow.OUTPUT: ("IC", "KH", "KW")}

# Where the traffic is the same, output channels are the outermost loop and input channels the innermost.
_PREFERENCE = (Dataflow.INPUT, Dataflow.WEIGHT, Dataflow.OUTPUT)


@dataclass(frozen=True)
class Reloads:
    """Number of times that each tile of an operand is loaded while all loops run."""

    input: int
    weight: int
    output: int


def _times(n: dict[str, int], order: tuple[str, ...], free: tuple[str, ...]) -> int:
    """Return how often each tile of an operand is loaded whose tile does not change over the `free` loops.

    A free loop loads it again in each of its trips, unless no other loop runs inside of it: then the tile stays on
    chip.
    """
    count = 1
    inside = 1
    for name in reversed(order):
        if name not in free:
            inside *= n[name]
        elif inside > 1:
            count *= n[name]
    return count


def reloads(n: dict[str, int], order: tuple[str, ...]) -> Reloads:
    """Return the reloads of each operand, by the trip counts n of loops in this order, outermost first.

    A loop of one trip reloads nothing.
    """
    return Reloads(*(_times(n, order, FREE[stays]) for stays in (Dataflow.INPUT, Dataflow.WEIGHT, Dataflow.OUTPUT)))


def loop_order_traffic(layer: ConvLayer, tile: Tile, order: tuple[str, ...]) -> Traffic:
    """Return the off-chip traffic of a layer whose loops run in this order, in bytes: with halo, without padding."""
    times = reloads(trips(layer, tile), order)
    down, across = axes(layer)
    items = layer.items
    positions = rows_read(down, tile.oh, tile.kh) * rows_read(across, tile.ow, tile.kw)
    return Traffic(
        layer.groups * layer.ic * positions * items.input * times.input,
        layer.weight_elements * items.weight * times.weight,
        layer.output_elements * (items.output + 2 * (times.output - 1) * items.psum),
    )


def loop_order(layer: ConvLayer, tiling: Tiling) -> tuple[str, ...]:
    """Return the off-chip loops of a group, outermost first; the loop over groups is outside all of them.

    Innermost are the loops over which the stationary operand does not change: OC for the input, OH and OW for the
    weights, IC, KH and KW for the output. The other two sets are ordered by least traffic. Their order matters only if
    all innermost loops have one trip, so that the next set decides which operand stays; otherwise OC is outside of OH
    and OW, and these are outside of IC, KH and KW.
    """
    inner = FREE[tiling.dataflow]
    outer = [FREE[stays] for stays in _PREFERENCE if stays is not tiling.dataflow]
    if any(-(-layer.loops[name] // tiling.tile.factors[name]) > 1 for name in inner):
        return (*outer[0], *outer[1], *inner)
    orders = [(*first, *second, *inner) for first, second in permutations(outer)]
    return min(orders, key=lambda order: loop_order_traffic(layer, tiling.tile, order).total_bytes)


def traffic_with_halo(layer: ConvLayer, tiling: Tiling) -> Traffic:
    """Return the off-chip traffic of a layer whose loops run in the order of `loop_order`, in bytes, without padding.

    The input's rows are summed over its windows; the rest is in closed form.
    """
    return loop_order_traffic(layer, tiling.tile, loop_order(layer, tiling))
