"""Bytes that really move: with the halo that neighbouring tiles of the input share, and reloads by what changes.

The equations of chapter 6 (planner/traffic.py) leave three things out. Neighbouring tiles of the input overlap by the
halo, and both load it. A loop of one trip forces no reload, whatever the dataflow is called. Rows that no window reads
are never loaded. The plans of planner/text do as it is said here, byte by byte.
"""

from mavcg.planner.layer import ConvLayer
from mavcg.planner.order import loop_order, moved, reloads
from mavcg.planner.tiling import Tiling, trips
from mavcg.planner.traffic import Traffic, reload_input, reload_output, reload_weight
from mavcg.planner.windows import axes, rows_read


def traffic_with_halo(layer: ConvLayer, tiling: Tiling) -> Traffic:
    """Off-chip bytes of a layer, read and written, its loops in the order of `loop_order`. Padding is not loaded.

    The input's rows are summed over its windows; everything else is in closed form.
    """
    return moved(layer, tiling.tile, loop_order(layer, tiling))


def reads_once(layer: ConvLayer, tiling: Tiling) -> bool:
    """Whether the tiles of the input have each of its elements just once: no halo, no element that nobody reads.

    So it is where neither the maps nor the kernel are cut and all rows are read, and of 1x1 kernels with stride 1.
    """
    tile = tiling.tile
    down, across = axes(layer)
    return (rows_read(down, tile.oh, tile.kh), rows_read(across, tile.ow, tile.kw)) == (layer.ih, layer.iw)


def equals_equation(layer: ConvLayer, tiling: Tiling) -> bool:
    """Whether `traffic_with_halo` is equation 6.1 to the byte: `reads_once`, and no loop vanished that the equation
    takes for a reload."""
    times = reloads(trips(layer, tiling.tile), loop_order(layer, tiling))
    return (
        reads_once(layer, tiling)
        and times.input == reload_input(layer, tiling)
        and times.weight == reload_weight(layer, tiling)
        and 2 * times.output - 1 == reload_output(layer, tiling)
    )
