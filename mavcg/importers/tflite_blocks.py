"""Scales of blocks of a TFLite tensor: the schema's BlockwiseQuantization, which the tflite package does not know.

Source: LiteRT, schema.fbs, table BlockwiseQuantization (scales, zero_points, block_size); its kernels, which read the
scales as f16 and take the zero points to be 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from flatbuffers.number_types import Int32Flags, UOffsetTFlags

from mavcg.errors import MavcgError
from mavcg.importers.tflite_model import Quant, TfliteTensor

_BLOCKWISE = 2  # QuantizationDetails
_SCALES, _ZERO_POINTS, _BLOCK_SIZE = 4, 6, 8  # places of the fields in the table's index


@dataclass(frozen=True)
class BlockwiseScales:
    """A blockwise quantization. scales, zeros: indices of tensors. size: elements of a block."""

    scales: int
    zeros: int
    size: int


def read_blocks(quantization: Any) -> BlockwiseScales | None:
    """Return the blockwise quantization of QuantizationParameters; None if there is none."""
    if quantization is None or quantization.DetailsType() != _BLOCKWISE or quantization.Details() is None:
        return None
    table = quantization.Details()

    def number(field: int) -> int:
        offset = UOffsetTFlags.py_type(table.Offset(field))
        return int(table.Get(Int32Flags, offset + table.Pos)) if offset else 0

    return BlockwiseScales(number(_SCALES), number(_ZERO_POINTS), number(_BLOCK_SIZE))


def with_blocks(
    tensor: TfliteTensor, blocks: BlockwiseScales, tensors: Sequence[TfliteTensor], fail: Callable[[str], MavcgError]
) -> TfliteTensor:
    """Return a tensor with its scales, which are another one's elements. fail: returns the error for a problem.

    Raises: MavcgError for a tensor that is computed, blocks that do not divide its last dimension, scales that are not
    positive f16 constants, one for each block, and zero points other than 0.
    """
    if tensor.data is None or tensor.dtype != "i8":
        raise fail(f"it is {tensor.kind} with scales of blocks; constants of int4 and int8 may have them")
    depth = tensor.shape[-1] if tensor.shape else 0
    if blocks.size < 1 or not depth or depth % blocks.size:
        raise fail(f"blocks of {blocks.size} do not divide the last dimension of {list(tensor.shape)}")
    if not 0 <= blocks.scales < len(tensors):
        raise fail(f"its scales are tensor {blocks.scales}, but there are {len(tensors)}")
    given, shape = tensors[blocks.scales], (*tensor.shape[:-1], depth // blocks.size)
    if given.data is None or given.dtype != "f16" or given.data.size != int(np.prod(shape)):
        raise fail(f"its scales, {given.label}, are {given.kind}{list(given.shape)}; a constant f16{shape} is needed")
    scale = given.data.reshape(shape).astype(np.float32)
    if not bool((np.isfinite(scale) & (scale > 0)).all()):
        raise fail("a scale is not a positive number")
    if 0 < blocks.zeros < len(tensors):  # 0 is what a file has that names none
        zeros = tensors[blocks.zeros].data
        if zeros is None or zeros.any():
            raise fail(f"its zero points, {tensors[blocks.zeros].label}, are not all 0")
    return replace(tensor, quant=Quant(scale, np.zeros(shape, np.int64), len(shape) - 1, blocks.size))
