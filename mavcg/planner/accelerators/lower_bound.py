"""Off-chip bytes that no order of a layer's work can do without, for an on-chip memory of a given size.

After Chen, Han and Wang, "Communication Lower Bound in Convolution Accelerators" (HPCA 2020, arXiv 1911.05662): an
input element lies in at most R windows, so that a set of multiply-accumulates that touches I inputs, W weights and O
outputs has at most sqrt(R * I * W * O) members.
"""

from math import gcd, sqrt

from mavcg.hardware.accelerator import MemoryLevel
from mavcg.planner.layer_model.layer import ConvLayer
from mavcg.planner.layer_model.traffic import no_reload


def memory_bytes(level: MemoryLevel) -> int:
    """All of a level, whatever operands its parts are for: a bound for it holds for any split of it."""
    return level.shared_bytes or level.input_bytes + level.weight_bytes + level.output_bytes


def window_reuse(layer: ConvLayer) -> float:
    """Windows that an input element lies in on average, without borders: the paper's R. At least 1."""
    return max(1.0, layer.kh * layer.kw / (layer.stride[0] * layer.stride[1]))


def most_windows(layer: ConvLayer) -> int:
    """Windows that an input element lies in at most."""
    (down, across), (dilation_h, dilation_w) = layer.stride, layer.dilation
    # Taps that meet one element have a distance of stride / gcd(stride, dilation).
    return -(-layer.kh // (down // gcd(down, dilation_h))) * -(-layer.kw // (across // gcd(across, dilation_w)))


def balanced_bytes(layer: ConvLayer, on_chip_bytes: int) -> float:
    """Return the least bytes of the paper's dataflow, every operand once at least: its bound with a constant.

    The memory is full of partial sums of u channels at z positions; each input is then read OC / u times and
    each weight OH * OW / z times. Where all elements have one size the sum is least at z = R * u, and is
    2 * MACs / sqrt(R * u * z) elements. Outputs are written once. Groups come one after the other.

    The order of this is proven, the constant is not: a layer with few input channels whose weights, or whose inputs,
    fit as a whole may move less. `lower_bound_bytes` holds for all.
    """
    items = layer.items
    psums = on_chip_bytes / items.psum
    read = 2 * layer.macs * sqrt(items.input * items.weight / (window_reuse(layer) * psums))
    return max(float(no_reload(layer).total_bytes), read + layer.output_elements * items.output)


def lower_bound_bytes(layer: ConvLayer, on_chip_bytes: int) -> float:
    """No order of the work moves less; partial sums may leave the memory and come back, and are not computed twice.

    Cut the run where T = 4 S elements have been moved, S being the elements that the memory holds. Whatever a piece
    touches was there before it (at most S), is read in it, or is an output begun in it, which is there after it (at
    most S) or written in it: at most 2 S + T = 6 S elements, and so at most sqrt(R) * (2 S)^1.5 multiply-accumulates.
    All pieces but the last move T: at least sqrt(2) * MACs / sqrt(R * S) - 4 S together. R is `most_windows`, an
    element the smallest of the layer's.
    """
    items = layer.items
    size = min(items.input, items.weight, items.output, items.psum)
    elements = on_chip_bytes / size
    moved = sqrt(2 / (most_windows(layer) * elements)) * layer.macs - 4 * elements
    return max(float(no_reload(layer).total_bytes), moved * size)
