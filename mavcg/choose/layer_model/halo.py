"""Off-chip bytes that are really moved: with the halo that neighbouring tiles share, in the order of the loops.

The equations of chapter 6 (choose/layer_model/traffic.py) ignore three effects: neighbouring tiles of the input
overlap by the halo, and both load it; a loop with one trip causes no reload, whatever the dataflow; rows that no window
reads are never loaded. The plans of planner/accelerators/text move exactly the bytes counted here.
"""

from mavcg.choose.layer_model.layer import ConvLayer
from mavcg.choose.layer_model.loop_order import loop_order, loop_order_traffic
from mavcg.choose.layer_model.tiling import Tiling
from mavcg.choose.layer_model.traffic import Traffic


def traffic_with_halo(layer: ConvLayer, tiling: Tiling) -> Traffic:
    """Return the off-chip traffic of a layer whose loops run in the order of `loop_order`, in bytes, without padding.

    The input's rows are summed over its windows; the rest is in closed form.
    """
    return loop_order_traffic(layer, tiling.tile, loop_order(layer, tiling))
