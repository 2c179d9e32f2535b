"""Bytes that really move: with the halo that neighbouring tiles of the input share, and reloads by what changes.

The equations of chapter 6 (planner/layer_model/traffic.py) leave three things out. Neighbouring tiles of the input
overlap by the
halo, and both load it. A loop of one trip forces no reload, whatever the dataflow is called. Rows that no window reads
are never loaded. The plans of planner/text follow this model, byte by byte.
"""

from mavcg.planner.layer_model.layer import ConvLayer
from mavcg.planner.layer_model.loop_order import loop_order, loop_order_traffic
from mavcg.planner.layer_model.tiling import Tiling
from mavcg.planner.layer_model.traffic import Traffic


def traffic_with_halo(layer: ConvLayer, tiling: Tiling) -> Traffic:
    """Return the off-chip bytes of a layer, read and written, its loops in the order of `loop_order`. Padding is not
    loaded.

    The input's rows are summed over its windows; everything else is in closed form.
    """
    return loop_order_traffic(layer, tiling.tile, loop_order(layer, tiling))
