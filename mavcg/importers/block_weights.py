"""Weights of few bits in blocks with scales, as inputs of graph operators that keep them packed."""

from dataclasses import dataclass
from math import prod

import numpy as np

from mavcg.graph import Array
from mavcg.graph.ops.block_weights import BITS, unit_terms
from mavcg.graph.reference.block_weights import pack_bits
from mavcg.importers.call import NodeCall
from mavcg.importers.indices import gather_along
from mavcg.importers.value import Value, constant

_WHOLE_ROWS = 32  # a block that is a whole row has a multiple of these terms, as kernels add them at once


@dataclass(frozen=True)
class BlockWeights:
    """Rows of numbers in blocks. numbers: u8 [.., blocks * block]. scales: f32 [.., blocks]. zeros: u8 or f32 [..,
    blocks], or None for half of the range."""

    numbers: Array
    scales: Array
    zeros: Array | None
    bits: int
    block: int

    def values(self) -> tuple[Value, Value, Value | None]:
        """Return the inputs w, scales and zeros of graph operators."""
        packed = pack_bits(self.numbers, self.bits)
        zeros = None if self.zeros is None else constant(self.zeros, stem="zeros")
        return constant(packed, "u8", "weights"), constant(self.scales, "f32", "scales"), zeros


def block_weights(matrix: Value) -> BlockWeights | None:
    """Return a dequantised matrix [depth, width] with blocks along its depth; None for other values."""
    w = matrix.quantised
    if w is None or not w.block or matrix.rank != 2 or w.axis != 0:
        return None
    return _rows_in_blocks(w.q.T, w.scale.T, w.zero.T, w.block)


def row_weights(matrix: Value) -> BlockWeights | None:
    """Return a dequantised matrix [rows, depth] with blocks along its depth, or one scale for each row or for all.

    Rows of one scale are one block. None for other values.
    """
    w = matrix.quantised
    if w is None or matrix.rank != 2 or w.axis != (1 if w.block else 0):
        return None
    if w.block:
        return _rows_in_blocks(w.q, w.scale, w.zero, w.block)
    rows, depth = matrix.shape
    scale, zero = (np.broadcast_to(part, (rows,)).reshape(rows, 1) for part in (w.scale, w.zero))
    return _rows_in_blocks(w.q, scale, zero, -(-depth // _WHOLE_ROWS) * _WHOLE_ROWS)


def _rows_in_blocks(q: Array, scale: Array, zero: Array, block: int) -> BlockWeights | None:
    """Return rows of numbers; of 2 or 4 bits if all of them are in the range of these, whatever the file's type.

    q: i8 or u8 [rows, depth]. scale, zero: [rows, blocks]. None for blocks or zero points that no kernel has.
    """
    fitting = [bits for bits in BITS if not block % unit_terms(bits) and _in_range(q, bits) and _in_range(zero, bits)]
    if not q.size or not fitting or q.dtype not in (np.int8, np.uint8):
        return None
    bits = fitting[0]
    middle = 1 << (bits - 1)
    numbers, zeros = (unsigned_numbers(part, middle) for part in (q, zero))
    usual = bool((zeros == middle).all())
    filled = whole_blocks(numbers, scale.shape[1] * block)
    scales = np.ascontiguousarray(scale, np.float32)
    return BlockWeights(filled, scales, None if usual else np.ascontiguousarray(zeros), bits, block)


def _in_range(numbers: Array, bits: int) -> bool:
    """Return True if whole numbers, i8 or u8, are in the range of signed or unsigned ones of so many bits."""
    least = -(1 << (bits - 1)) if numbers.dtype == np.int8 else 0
    return bool(numbers.min(initial=least) >= least and numbers.max(initial=least) < least + (1 << bits))


def multiply_blocks(
    call: NodeCall, x: Value, weights: BlockWeights, quantize: bool = False, bias: Value | None = None
) -> Value:
    """Return x [.., depth] times weights [width, depth], plus bias [width]."""
    w, scales, zeros = weights.values()
    attrs = {"bits": weights.bits, "block": weights.block, "quantize": quantize}
    rows = call.reshape(x, (prod(x.shape[:-1]), x.shape[-1]))
    made = call.add("block_matmul", rows, w, scales, zeros, bias, **attrs)
    return call.reshape(made, (*x.shape[:-1], weights.numbers.shape[0]))


def look_up_rows(call: NodeCall, weights: BlockWeights, indices: Value, depth: int, from_end: bool = True) -> Value:
    """Return the rows of a table [rows, .., depth] at indices along its first axis, expanded to f32 in the run.

    from_end: as of gather_along.
    """
    rows = [part and gather_along(call, part, indices, 0, from_end) for part in weights.values()]
    return call.add("expand_blocks", *rows, bits=weights.bits, block=weights.block, depth=depth)


def unsigned_numbers(numbers: Array, middle: int) -> Array:
    """Return signed numbers plus the middle of the unsigned range; unsigned ones unchanged."""
    return (numbers.astype(np.int16) + middle).astype(np.uint8) if numbers.dtype == np.int8 else numbers


def whole_blocks(numbers: Array, length: int) -> Array:
    """Return rows filled up with zeros to `length` numbers."""
    filled = np.zeros((*numbers.shape[:-1], length), np.uint8)
    filled[..., : numbers.shape[-1]] = numbers
    return filled
