"""Lower bounds of off-chip traffic: of a layer for a memory of a given size, and of tiles for the exact searches.

A layer's is proven, whatever the order of the work, after Chen, Han and Wang, "Communication Lower Bound in Convolution
Accelerators" (HPCA 2020, arXiv 1911.05662): an input element lies in at most R windows, so a set of
multiply-accumulates that touches I inputs, W weights and O outputs has at most sqrt(R * I * W * O) members.

By those of tiles the exact searches discard tiles without costing each; entries.py has the tiles.
"""

from math import gcd, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mavcg.accelerators.plans.entries import ChannelFactors, Spatial
from mavcg.cost.layer import ConvLayer
from mavcg.cost.traffic import Integers, no_reload
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


def most_input_channels(memory: MemoryLevel, spatial: Spatial, out_channels: Integers) -> Integers:
    """Return the largest factor of IC that fits beside each factor of OC, or a number below 1 if none does.

    out_channels: factors of OC, which broadcast against the entries of `spatial`.
    """
    weights = out_channels * spatial.weight_bytes[:, None]
    outputs = out_channels * spatial.output_bytes[:, None]
    inputs = spatial.input_bytes[:, None]
    if memory.shared_bytes:
        return (memory.shared_bytes - outputs) // (inputs + weights)
    most = np.minimum(memory.input_bytes // inputs, memory.weight_bytes // weights)
    return np.where(outputs <= memory.output_bytes, most, 0)


def most_output_channels(memory: MemoryLevel, spatial: Spatial, in_channels: int) -> Integers:
    """Return the largest factor of OC that fits beside in_channels input channels for each entry.

    Below 1 if none does.
    """
    weights = in_channels * spatial.weight_bytes
    inputs = in_channels * spatial.input_bytes
    if memory.shared_bytes:
        return (memory.shared_bytes - inputs) // (spatial.output_bytes + weights)
    most = np.minimum(memory.output_bytes // spatial.output_bytes, memory.weight_bytes // weights)
    return np.where(inputs <= memory.input_bytes, most, 0)


class Before(NamedTuple):
    """Trip counts of the loops over tiles of the next memory level further out; 1 if there is none (levels.py)."""

    oc: int = 1
    pixels: int = 1
    reductions: int = 1


NOTHING_BEHIND = Before()


def totals(
    layer: ConvLayer, spatial: Spatial, oc_trips: Integers, ic_trips: Integers, before: Before = NOTHING_BEHIND
) -> tuple[Integers, ...]:
    """Return the bytes of equation 6.1 for each dataflow, in the order of Dataflow.

    Trip counts broadcast against the entries, which are the first axis. Bytes never fall with a trip count, so trip
    counts that are too small give a lower bound.
    """
    shape = (len(spatial),) + (1,) * (max(oc_trips.ndim, ic_trips.ndim) - 1)
    pixels, taps, once, each = (v.reshape(shape) for v in (spatial.pixels, spatial.taps, spatial.once, spatial.each))
    items = layer.items
    weights = layer.weight_elements * items.weight
    outputs, psums = layer.output_elements * items.output, layer.output_elements * items.psum * 2
    input_bytes, weight_bytes, output_bytes = each * oc_trips, weights * pixels, outputs + psums * (taps * ic_trips - 1)
    return (
        once * before.oc + weight_bytes + output_bytes,
        input_bytes + weights * before.pixels + output_bytes,
        input_bytes + weight_bytes + outputs + psums * (before.reductions - 1),
    )


def least(
    layer: ConvLayer,
    memory: MemoryLevel,
    spatial: Spatial,
    oc: ChannelFactors,
    ic: ChannelFactors,
    before: Before = NOTHING_BEHIND,
) -> tuple[Integers, Integers, NDArray[np.bool_]]:
    """Return for each entry lower bounds of the bytes and off-chip steps of its tiles, and whether any tile fits.

    The largest factor of OC that fits beside the smallest of IC has the fewest trips of OC, and vice versa; the traffic
    with both minima at once is at most that of any tile that fits.
    """
    most_ic = most_input_channels(memory, spatial, oc.factor[:1])[:, 0]
    most_oc = most_output_channels(memory, spatial, int(ic.factor[0]))
    fits = (most_ic >= ic.factor[0]) & (most_oc >= oc.factor[0])
    oc_trips = oc.trips[largest(oc, most_oc)]
    ic_trips = ic.trips[largest(ic, most_ic)]
    bound = np.minimum.reduce(totals(layer, spatial, oc_trips, ic_trips, before))
    return bound, spatial.pixels * spatial.taps * oc_trips * ic_trips, fits


def largest(channel_factors: ChannelFactors, most: Integers) -> Integers:
    """Return the index of the largest factor up to each limit in `most`, of any shape; 0 if all are larger."""
    index: Integers = np.maximum(np.searchsorted(channel_factors.factor, most, side="right") - 1, 0)
    return index
