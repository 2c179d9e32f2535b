"""The packing of weights in blocks: a stream of blocks for each panel of output channels, each with its scales.

A block of a panel is: its numbers, a scale for each channel, and, where the file has zero points, a byte for each. The
numbers lie in units of 32 bits for each channel of the panel, one channel beside the other. A unit holds four terms of
8 bits; eight of 4 bits, of which byte j has term j in its lower and term 4 + j in its upper half; or 16 of 2 bits, of
which byte j has the terms j, 4 + j, 8 + j and 12 + j, the first in its lowest bits. So a vector of 32-bit lanes has the
same terms of neighbouring channels, and equal parts of its bytes are groups of four neighbouring terms, as dot products
take them.
"""

from dataclasses import dataclass

import numpy as np

from mavcg.graph.reference.block_weights import pack_bits, unpack_bits
from mavcg.specs.kernel import F32_BYTES, Array
from mavcg.specs.serialize import spec_format

UNIT_BYTES = 4


@spec_format("block_format")
@dataclass(frozen=True)
class BlockFormat:
    """The form of packed weights.

    panel: channels of a panel. scale: "f32", or "f16" where that holds every scale. zeros: with zero points, of a byte;
    float_zeros: which are f32.
    """

    bits: int
    block: int
    panel: int
    scale: str
    zeros: bool
    float_zeros: bool = False

    @property
    def unit_terms(self) -> int:
        """Terms of a unit of 32 bits."""
        return 8 * UNIT_BYTES // self.bits

    @property
    def units(self) -> int:
        """Units of a channel in a block."""
        return self.block // self.unit_terms

    @property
    def number_bytes(self) -> int:
        """Bytes of the numbers of a block of a panel."""
        return self.panel * self.units * UNIT_BYTES

    @property
    def factor_bytes(self) -> int:
        """Most bytes of the numbers of a block of a panel, unpacked: those of 8 bits may be two halves."""
        return self.panel * self.block * (2 if self.bits == 8 else 1)

    @property
    def scale_bytes(self) -> int:
        """Bytes of a scale."""
        return 2 if self.scale == "f16" else 4

    @property
    def zeros_at(self) -> int:
        """Byte of a block at which its zero points begin."""
        return self.number_bytes + self.panel * self.scale_bytes

    @property
    def block_bytes(self) -> int:
        """Bytes of a block of a panel."""
        return self.zeros_at + self.panel * (F32_BYTES if self.float_zeros else int(self.zeros))

    @property
    def middle(self) -> int:
        """The zero point of a file without zero points."""
        return 1 << (self.bits - 1)


def scale_type(scales: Array) -> str:
    """Return "f16" if halves hold all scales exactly, else "f32". scales: [channels, blocks], f32."""
    with np.errstate(over="ignore"):
        return "f16" if bool((scales.astype(np.float16).astype(np.float32) == scales).all()) else "f32"


def pack_blocks(w: Array, scales: Array, form: BlockFormat) -> Array:
    """Return packed weights without zero points: u8 [panels, blocks, block_bytes].

    w: [channels, bytes of packed numbers], u8. scales: [channels, blocks], f32.
    """
    return _packed_blocks(w, scales, np.zeros(scales.shape, np.uint8), form)


def pack_blocks_with_zeros(w: Array, scales: Array, zeros: Array, form: BlockFormat) -> Array:
    """Return packed weights.

    w: [channels, bytes of packed numbers], u8. scales: [channels, blocks], f32. zeros: [channels, blocks], u8, or of a
    form with float_zeros f32.
    Returns: u8 [panels, blocks, block_bytes]. Missing channels of the last panel have scales of 0.
    """
    return _packed_blocks(w, scales, zeros, form)


def _packed_blocks(w: Array, scales: Array, zeros: Array, form: BlockFormat) -> Array:
    (channels, blocks), panel = scales.shape, form.panel
    panels = -(-channels // panel)

    def in_panels(rows: Array) -> Array:
        """Return [channels, blocks, ..] as [panels, blocks, .., panel, last], the missing channels 0."""
        filled = np.zeros((panels * panel, *rows.shape[1:]), rows.dtype)
        filled[:channels] = rows
        return np.moveaxis(filled.reshape(panels, panel, *rows.shape[1:]), 1, -2)

    of_byte = 8 // form.bits
    numbers = unpack_bits(w, form.bits, of_byte * w.shape[1]).reshape(channels, blocks, form.units, of_byte, UNIT_BYTES)
    units = pack_bits(np.moveaxis(numbers, -2, -1), form.bits)[..., 0]
    kept = scales.astype(np.float16 if form.scale == "f16" else np.float32)
    parts = [in_panels(units), in_panels(np.ascontiguousarray(kept)[..., None].view(np.uint8))]
    parts += [in_panels(np.ascontiguousarray(zeros)[..., None].view(np.uint8))] if form.zeros else []
    flat = [np.ascontiguousarray(part).reshape(panels, blocks, -1) for part in parts]
    return np.ascontiguousarray(np.concatenate(flat, axis=-1))
