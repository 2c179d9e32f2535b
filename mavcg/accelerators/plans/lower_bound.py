"""Lower bounds of a layer's off-chip traffic for an on-chip memory of a given size, whatever the order of the work.

After Chen, Han and Wang, "Communication Lower Bound in Convolution Accelerators" (HPCA 2020, arXiv 1911.05662): an
input element lies in at most R windows, so a set of multiply-accumulates that touches I inputs, W weights and O outputs
has at most sqrt(R * I * W * O) members.
"""

from math import gcd, sqrt

from mavcg.cost.layer import ConvLayer
from mavcg.cost.traffic import no_reload
from mavcg.hardware.accelerator import MemoryLevel


def memory_bytes(level: MemoryLevel) -> int:
    """Return the size of a level, summed over its parts for each operand; a bound for it holds for any split of it."""
    return level.shared_bytes or level.input_bytes + level.weight_bytes + level.output_bytes


def most_windows(layer: ConvLayer) -> int:
    """Return the largest number of windows that contain the same input element."""
    (down, across), (dilation_h, dilation_w) = layer.stride, layer.dilation
    # Taps that read the same element are stride / gcd(stride, dilation) taps apart.
    return -(-layer.kh // (down // gcd(down, dilation_h))) * -(-layer.kw // (across // gcd(across, dilation_w)))


def lower_bound_bytes(layer: ConvLayer, on_chip_bytes: int) -> float:
    """Return a proven lower bound of the traffic, in bytes; partial sums may move out and back but are not recomputed.

    Cut the run into pieces in which T = 4 S elements are moved, S being the elements that the memory holds. Whatever a
    piece touches was in the memory before it (at most S), is read in it, or is an output begun in it, which is in the
    memory after it (at most S) or written in it: at most 2 S + T = 6 S elements, and so at most sqrt(R) * (2 S)^1.5
    multiply-accumulates. All pieces but the last move T: at least sqrt(2) * MACs / sqrt(R * S) - 4 S together. R is
    `most_windows`, an element the smallest of the layer's.
    """
    items = layer.items
    size = min(items.input, items.weight, items.output, items.psum)
    elements = on_chip_bytes / size
    moved = sqrt(2 / (most_windows(layer) * elements)) * layer.macs - 4 * elements
    return max(float(no_reload(layer).total_bytes), moved * size)
