"""Pack weights, biases and shifts in the order in which the array reads them from weight memory."""

from dataclasses import dataclass

import numpy as np

from mavcg.accelerators.isa.datapath import ENTRY_BYTES, Datapath, blocks
from mavcg.accelerators.xgraph import Parameters, XNode
from mavcg.graph import Array


@dataclass(frozen=True)
class WeightSlice:
    """Weights from the input channels [in_first, in_end) to the output channels [first, end) of a convolution."""

    node: str
    first: int
    end: int
    in_first: int
    in_end: int


def is_depthwise(node: XNode, in_ch: int) -> bool:
    """Return True if the depthwise mode computes the node: output channel i reads input channel i only."""
    return node.kind == "depthwise" and node.channels == in_ch


def read_channels(node: XNode, in_ch: int, first: int, end: int, path: Datapath) -> tuple[int, int]:
    """Return the input channels that the output channels [first, end) read, extended to the start of a word."""
    if is_depthwise(node, in_ch):
        return first, end
    groups = in_ch if node.kind == "depthwise" else node.groups
    channels_per_group, depth = node.channels // groups, in_ch // groups
    low = first // channels_per_group * depth
    return low // path.word * path.word, ((end - 1) // channels_per_group + 1) * depth


def slice_words(node: XNode, in_ch: int, part: WeightSlice, path: Datapath) -> int:
    """Return the size of a slice in weight memory, in words."""
    taps = node.kernel[0] * node.kernel[1]
    words = path.block_words(taps, part.in_end - part.in_first, is_depthwise(node, in_ch))
    return words * blocks(part.end - part.first, path.oc_lanes)


def pack_slice(
    node: XNode, parameters: Parameters, in_ch: int, in_radix: int, part: WeightSlice, path: Datapath
) -> bytes:
    """Return the bytes of a slice: for each block of output channels its entries, then its weights.

    An entry is: bias, int32; shift, int8; multiplier, uint16, 0 for 1; a zero. The weights of a block are words [output
    channel, input channel], by kernel row, kernel column and block of input channels; for a depthwise convolution, taps
    take the place of input channels.
    """
    count = blocks(part.end - part.first, path.oc_lanes)
    padded = count * path.oc_lanes
    weights = dense_weights(node, parameters.weights, in_ch, part)
    out, taps = weights.shape[0], weights.shape[1] * weights.shape[2]
    if is_depthwise(node, in_ch):
        lanes = np.zeros((padded, 1, blocks(taps, path.word) * path.word), np.int8)
        lanes[:out, 0, :taps] = weights.reshape(out, taps)
    else:
        lanes = np.zeros((padded, taps, blocks(weights.shape[3], path.word) * path.word), np.int8)
        lanes[:out, :, : weights.shape[3]] = weights.reshape(out, taps, -1)
    words = lanes.reshape(count, path.oc_lanes, -1, path.word).transpose(0, 2, 1, 3)
    entries = np.zeros((padded, ENTRY_BYTES), np.int8)
    bias = np.ascontiguousarray(parameters.bias[part.first : part.end].astype("<i4"))
    entries[:out, :4] = bias.view(np.int8).reshape(-1, 4)
    if node.multipliers:
        multipliers = np.asarray(node.multipliers[part.first : part.end], "<u2")
        entries[:out, 5:7] = multipliers.view(np.int8).reshape(-1, 2)
    entries[:out, 4] = result_shifts(node, in_radix)[part.first : part.end]
    block = np.zeros((count, path.entry_words * path.weight_word), np.int8)
    block[:, : ENTRY_BYTES * path.oc_lanes] = entries.reshape(count, -1)
    return np.concatenate([block, words.reshape(count, -1)], axis=1).tobytes()


def result_shifts(node: XNode, in_radix: int) -> Array:
    """Return the shift of each output channel's sums, int8."""
    assert node.radix is not None
    shifts = np.asarray(node.weight_radix, np.int64) + in_radix - node.radix
    return np.broadcast_to(shifts, (node.channels,)).astype(np.int8)


def dense_weights(node: XNode, weights: Array, in_ch: int, part: WeightSlice) -> Array:
    """Return the weights [out, k_h, k_w, in] of a slice, with 0 for input channels that a group does not read."""
    own = weights[part.first : part.end]
    groups = in_ch if node.kind == "depthwise" else node.groups
    if is_depthwise(node, in_ch) or groups == 1:
        return own if is_depthwise(node, in_ch) else own[:, :, :, part.in_first : part.in_end]
    channels_per_group, depth = node.channels // groups, in_ch // groups
    spread = np.zeros((*own.shape[:3], in_ch), np.int8)
    for row in range(own.shape[0]):
        low = (part.first + row) // channels_per_group * depth
        spread[row, :, :, low : low + depth] = own[row]
    return spread[:, :, :, part.in_first : part.in_end]
