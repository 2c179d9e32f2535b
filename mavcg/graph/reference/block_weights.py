"""Definitions of the operators on weights in blocks: numbers of 2, 4 or 8 bits, less a zero point, times a scale."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mavcg.graph import Array, Node

LARGEST = 127.0  # of a quantised activation


def unpack_bits(packed: Array, bits: int, count: int) -> Array:
    """Return the first `count` unsigned numbers of each row of bytes, which begin at the lowest bits of the first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return numbers.reshape(*packed.shape[:-1], -1)[..., :count]


def unpack_signed_bits(packed: Array, bits: int, count: int) -> Array:
    """Return the first `count` signed numbers of each row of bytes, i8: unpack_bits in two's complement."""
    top = np.int8(1 << (bits - 1))
    return (unpack_bits(packed, bits, count).view(np.int8) ^ top) - top


def pack_bits(numbers: Array, bits: int) -> Array:
    """Return rows of unsigned numbers as bytes, the first in the lowest bits: the reverse of unpack_bits.

    numbers: u8 [.., n], where n is a multiple of the numbers of a byte.
    """
    groups = numbers.reshape(*numbers.shape[:-1], -1, 8 // bits).astype(np.uint8)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return np.asarray(np.bitwise_or.reduce(groups << shifts, axis=-1), np.uint8)


def quantized_blocks(x: Array, block: int) -> tuple[Array, Array]:
    """Return (whole numbers [.., blocks, block] as f64, f32 scales [.., blocks]) of x f32 [.., depth].

    The scale of a block is its largest magnitude over 127; x * (127 / that) is rounded to the nearest number, to even
    between two. Missing terms of the last block are 0. Source: onnxruntime, MLAS, QuantizeARow_CompInt8.
    """
    depth = x.shape[-1]
    blocks = -(-depth // block)
    filled = np.zeros((*x.shape[:-1], blocks * block), np.float32)
    filled[..., :depth] = x
    filled = filled.reshape(*x.shape[:-1], blocks, block)
    largest = np.abs(filled).max(axis=-1, initial=0).astype(np.float32)
    inverse = np.divide(np.float32(LARGEST), largest, out=np.zeros_like(largest), where=largest != 0)
    return np.rint(filled * inverse[..., None]).astype(np.float64), largest / np.float32(LARGEST)


def _numbers(node: Node, w: Array, zeros: Array | None) -> Array:
    """Return the numbers less their zero points, f64 [.., blocks, block]."""
    bits, block = node.attr("bits"), node.attr("block")
    numbers = unpack_bits(w, bits, w.shape[-1] * 8 // bits).astype(np.float64)
    numbers = numbers.reshape(*w.shape[:-1], -1, block)
    return np.asarray(numbers - (float(1 << (bits - 1)) if zeros is None else zeros.astype(np.float64)[..., None]))


def _expand_blocks(node: Node, inputs: Sequence[Any]) -> Array:
    w, scales, zeros = inputs
    weights = _numbers(node, w, zeros) * scales[..., None]
    return np.asarray(weights.reshape(*w.shape[:-1], -1)[..., : node.attr("depth")])


def _block_matmul(node: Node, inputs: Sequence[Any]) -> Array:
    x, w, scales, zeros, bias, gate, residual = inputs
    numbers, block = _numbers(node, w, zeros), node.attr("block")
    if gate is not None:
        x = x * (gate / (1 + np.exp(-gate)))
    if node.attr("quantize"):
        whole, x_scales = quantized_blocks(x.astype(np.float32), block)
        sums = np.einsum("...bk,nbk->...nb", whole, numbers)
        total = np.einsum("...nb,nb,...b->...n", sums, scales, x_scales.astype(np.float64))
    else:
        weights = (numbers * scales[..., None]).reshape(w.shape[0], -1)[:, : x.shape[-1]]
        total = x @ weights.T
    for added in (bias, residual):
        total = total if added is None else total + added
    return np.asarray(total)


DEFINITIONS: Mapping[str, Callable[[Node, Sequence[Any]], Array]] = {
    "block_matmul": _block_matmul,
    "expand_blocks": _expand_blocks,
}
