"""Handlers of weights of few bits in blocks with scales: MatMulNBits, GatherBlockQuantized, dequantised products.

Source: onnxruntime, "Contrib operators" (docs/ContribOperators.md), version 1.32; the precision of activations is that
of its CPU provider (MatMulNBits: accuracy_level 4 quantises them to 8 bits by blocks, unless zero points are floats
or numbers of 2 bits are in other blocks than of 32 to 128; any other level leaves them f32).
"""

from collections.abc import Mapping

import numpy as np

from mavcg.graph import Array
from mavcg.graph.ops.block_weights import BITS
from mavcg.graph.reference.block_weights import unpack_bits
from mavcg.importers.block_weights import BlockWeights, look_up_rows, multiply_blocks, unsigned_numbers, whole_blocks
from mavcg.importers.call import known_at_build
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results, round_once

_BLOCKS_OF_2_BITS = (32, 64, 128)  # beside which activations are quantised
_QUANTISED = 4  # the accuracy_level of activations of 8 bits


@round_once
@known_at_build("B", "scales", "zero_points")
def matmul_nbits(call: OnnxCall) -> Results:
    """Import MatMulNBits: a product with weights in blocks, which stay packed."""
    x, bias = call.input(0, rank_min=2), call.maybe(5)
    depth, width = call.attr_int("K"), call.attr_int("N")
    bits, block = call.attr_int("bits", 4), call.attr_int("block_size")
    if bits not in BITS or block < 16 or block & (block - 1) or min(depth, width) < 1:
        raise call.fail(f"K {depth}, N {width}, bits {bits}, block_size {block}")
    if call.maybe(4) is not None:
        raise call.unsupported("g_idx", "blocks of neighbours")
    blocks = -(-depth // block)
    packed, scales = call.array(1, "B"), call.array(2, "scales")
    if packed.dtype != np.uint8 or packed.size != width * blocks * block * bits // 8 or scales.size != width * blocks:
        raise call.fail(f"B {list(packed.shape)} and {scales.size} scales for {width} x {blocks} blocks of {block}")
    if x.shape[-1] != depth or (bias is not None and bias.shape != (width,)):
        raise call.fail(f"its input 0 is {x.type} where [.., {depth}] is needed")
    scales, zeros = scales.reshape(width, blocks).astype(np.float32), _zero_points(call, width, blocks, bits)
    call.count_size(width * blocks * block, 1)
    numbers = unpack_bits(packed.reshape(width, -1), bits, blocks * block)
    whole = zeros.astype(np.uint8)
    usual, floats = bool((zeros == 1 << (bits - 1)).all()), bool((whole != zeros).any())
    kept = BlockWeights(numbers, scales, None if usual else zeros if floats else whole, bits, block)
    return multiply_blocks(call, x, kept, _quantises(call, bits, block), bias)


def _quantises(call: OnnxCall, bits: int, block: int) -> bool:
    """Return True if activations become 8-bit numbers."""
    points = call.maybe(3)
    if call.attr_int("accuracy_level", 0) != _QUANTISED or (points is not None and points.dtype != "u8"):
        return False
    return bits != 2 or block in _BLOCKS_OF_2_BITS


def _zero_points(call: OnnxCall, width: int, blocks: int, bits: int) -> Array:
    """Return the zero points, f32 [width, blocks]: packed as the weights are, or floats, or half of the range."""
    given = call.maybe_array(3, "zero_points")
    if given is None:
        return np.full((width, blocks), 1 << (bits - 1), np.float32)
    row = -(-blocks * bits // 8)
    if given.dtype == np.uint8 and given.size == width * row:
        return unpack_bits(given.reshape(width, row), bits, blocks).astype(np.float32)
    if given.dtype.kind == "f" and given.size == width * blocks:
        return given.reshape(width, blocks).astype(np.float32)
    raise call.fail(f"zero_points {given.dtype}{list(given.shape)} for {width} x {blocks} blocks")


@round_once
@known_at_build("data", "scales", "zero_points")
def gather_block_quantized(call: OnnxCall) -> Results:
    """Import GatherBlockQuantized: rows of a table of packed numbers, expanded to f32 in the run.

    u8 data holds numbers of `bits` bits, the first in the lowest bits, with zero points of half of the range; data of
    int4 and uint4 has zero points of 0.
    """
    data, scales, given = call.array(0, "data"), call.array(2, "scales"), call.maybe_array(3, "zero_points")
    bits, block = call.attr_int("bits", 4), call.attr_int("block_size", 128)
    rank = data.ndim
    axes = [
        call.axis(call.attr_int(name, i), max(1, rank), name) for i, name in enumerate(("gather_axis", "quantize_axis"))
    ]
    if rank < 2 or axes != [0, rank - 1]:
        raise call.unsupported(f"gather_axis, quantize_axis {axes} of {rank} axes", "the first and the last axis")
    if bits not in BITS or block < 16 or block & (block - 1) or data.dtype not in (np.uint8, np.int8):
        raise call.fail(f"data {data.dtype}, bits {bits}, block_size {block}")
    packed = _in_bytes(call, data, scales, bits, block)
    depth = data.shape[-1] * (8 // bits if packed else 1)
    blocks = -(-depth // block)
    if scales.shape != (*data.shape[:-1], blocks):
        raise call.fail(f"scales {list(scales.shape)} where {[*data.shape[:-1], blocks]} is needed")
    middle = 1 << (bits - 1)
    numbers = unpack_bits(data, bits, depth) if packed else unsigned_numbers(data, middle)
    if given is None:
        usual = packed or data.dtype == np.int8  # int4's zero point of 0 is the middle of its range
        zeros = None if usual else np.zeros(scales.shape, np.uint8)
    else:
        zeros = unpack_bits(given, bits, blocks) if packed else unsigned_numbers(given, middle)
        if zeros.shape != scales.shape:
            raise call.fail(f"zero_points {list(given.shape)} for scales {list(scales.shape)}")
    weights = BlockWeights(whole_blocks(numbers, blocks * block), scales.astype(np.float32), zeros, bits, block)
    return look_up_rows(call, weights, call.input(1), depth)


def _in_bytes(call: OnnxCall, data: Array, scales: Array, bits: int, block: int) -> bool:
    """Return True for u8 data of packed numbers, False for int4 or uint4 data, which has a number in each element."""
    if bits == 8 or data.dtype == np.int8:
        return data.dtype == np.uint8
    fits = [scales.shape[-1] == -(-data.shape[-1] * of_byte // block) for of_byte in (1, 8 // bits)]
    if all(fits) and data.max(initial=0) < 1 << bits:
        raise call.unsupported("uint4 data of a single block", "u8 or int4 data, or more blocks")
    return bool(fits[1])


HANDLERS: Mapping[str, Handler] = {
    "MatMulNBits": matmul_nbits,
    "GatherBlockQuantized": gather_block_quantized,
}
