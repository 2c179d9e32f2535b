"""The register tile of an 8-bit micro-kernel: its sizes, its operands, and the epilogue of its exact sums."""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import (
    F32,
    address,
)
from mavcg.kernels.builder.nest import store_lanes
from mavcg.kernels.int8.register_tile import ProductForm
from mavcg.kernels.int8.requantize import Int8Epilogue, concatenate, to_eight_bits
from mavcg.specs.kernel import F32_BYTES as F32_BYTES
from mavcg.specs.kernel import Machine

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class QTile:
    """The register tile of one micro-kernel: pixels x vectors of channels.

    in_offsets, out_offsets, residual_offsets: offset of each pixel, in bytes. used: channels of the last vector. panel:
    channels of a panel of weights; panel_bytes: its size. narrow: no weight is -128, so that i16 can hold the sum of
    two products. ahead: prefetch distance of weights, in bytes; 0: no prefetch.
    """

    in_offsets: tuple[int, ...]
    out_offsets: tuple[int, ...]
    vectors: int
    used: int
    panel: int
    panel_bytes: int
    narrow: bool
    ahead: int = 0
    residual_offsets: tuple[int, ...] = ()


@dataclass(frozen=True)
class QPointers:
    """Pointers to the operands of the tile's first pixel and channel.

    residual: None without one. flip: a register of bytes 128 if the product form flips the signedness of inputs. It is
    loaded from memory: if LLVM knew that all bytes are equal, it would flip single numbers before the broadcast, which
    then could no longer be part of the load.
    """

    inputs: Value
    weights: Value
    out: Value
    residual: Value | None
    flip: Value | None


@dataclass(frozen=True)
class TileSums:
    """The exact sums of a tile. rows[pixel][vector]: i32 lanes, one per channel.

    windows: the sum of each pixel's inputs, in all lanes; empty without window_sums. Inputs count as they are
    multiplied: 128 more or less where the product form flips them.
    """

    rows: list[list[Value]]
    windows: list[Value]


class TileEnding(Protocol):
    """The epilogue of a tile's sums, from the tile's first output channel on."""

    def store(self, form: ProductForm, tile: QTile, at: QPointers, sums: TileSums) -> None:
        """Emit the computation of the results and their stores."""


@dataclass(frozen=True)
class RequantizedEnding:
    """An epilogue that requantizes the sums to 8 bits.

    bias, multiplier: pointers to the values of the tile's first channel, i32 and f32, padded to whole panels.
    """

    b: ir.IRBuilder
    machine: Machine
    epilogue: Int8Epilogue
    bias: Value
    multiplier: Value

    def store(self, form: ProductForm, tile: QTile, at: QPointers, sums: TileSums) -> None:
        """Emit the requantization and the stores, of at most 32 bytes each."""
        b, lanes = self.b, form.lanes
        for p, row in enumerate(sums.rows):
            for first, count in _requantize_groups(tile.vectors, lanes):
                used = min(count * lanes, (tile.vectors - 1) * lanes + tile.used - first * lanes)
                total = concatenate(b, [row[v] for v in range(first, first + count)])
                move = first * lanes * F32_BYTES
                bias = b.load(address(b, self.bias, move), name="bias", align=4, typ=total.type)
                kind = ir.VectorType(F32, count * lanes)
                multiplier = b.load(address(b, self.multiplier, move), name="multiplier", align=4, typ=kind)
                result = to_eight_bits(b, self.machine, b.add(total, bias), multiplier, self.epilogue)
                store_lanes(b, result, address(b, at.out, tile.out_offsets[p] + first * lanes), count * lanes, used)


def _requantize_groups(vectors: int, lanes: int) -> list[tuple[int, int]]:
    """Return (first, count) of the vectors that are requantized together: a power of two, at most 32 bytes of
    results."""
    groups, first = [], 0
    while first < vectors:
        count = 1 << (min(vectors - first, max(1, 32 // lanes)).bit_length() - 1)
        groups.append((first, count))
        first += count
    return groups
