"""Tile prologue (bias or partial sums) and tile epilogue (residual, activation, store) of a register tile."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.activation import activate
from mavcg.kernels.builder.emit import F32, Values, address, f32_splat, load_vector, store_vector
from mavcg.kernels.builder.prefetch import LINE_BYTES, prefetch
from mavcg.kernels.gemm.tile import F32_BYTES, Pointers, RegisterTile

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class Ends:
    """Emitter of a register tile's prologue and epilogue. The tile's sums are one list, by pixel, then vector.

    used: lanes of each vector that are output channels. counts: lanes of each vector that are computed. lanes: lanes of
    a whole vector.
    """

    b: ir.IRBuilder
    tile: RegisterTile
    at: Pointers
    used: Sequence[int]
    counts: Sequence[int]
    lanes: int

    def positions(self) -> list[tuple[int, int]]:
        """Return (pixel, vector) of each sum."""
        return [(p, v) for p in range(len(self.tile.in_offsets)) for v in range(self.tile.vectors)]

    def start(self) -> Values:
        """Return the initial sums of the tile: the bias."""
        vectors = [self.bias(v) for v in range(self.tile.vectors)]
        return tuple(vectors[v] for _, v in self.positions())

    def bias(self, vector: int) -> Value:
        """Return the biases of a vector of channels; zeros without a bias."""
        count = self.counts[vector]
        if self.at.bias is None:
            return f32_splat(0.0, count)
        pointer = address(self.b, self.at.bias, vector * self.lanes * F32_BYTES)
        return load_vector(self.b, pointer, ir.VectorType(F32, count), self.used[vector], "bias")

    def prefetch_residual(self, next_too: bool) -> None:
        """Emit prefetches of the residual, which is rarely in the caches; the sum hides its latency.

        next_too: also of the next tile's residual, as a short sum does not hide the latency of memory.
        """
        if self.at.residual is None:
            return
        offsets = self.tile.residual_offsets
        known = [offset for offset in offsets if isinstance(offset, int)]
        if next_too and len(known) > 1:
            offsets += tuple(offset + len(known) * (known[1] - known[0]) for offset in known)
        for offset in offsets:
            for first in range(0, self.tile.vectors * self.lanes * F32_BYTES, LINE_BYTES):
                prefetch(self.b, offset_pointer(self.b, self.at.residual, offset), first)

    def out(self, pixel: int, vector: int) -> Value:
        """Return the address of an output."""
        return offset_pointer(self.b, self.at.out, self.tile.out_offsets[pixel], vector * self.lanes * F32_BYTES)

    def load_sums(self) -> Values:
        """Load the partial sums that the previous block of terms stored."""
        return tuple(
            load_vector(self.b, self.out(p, v), ir.VectorType(F32, self.counts[v]), self.used[v], "sofar")
            for p, v in self.positions()
        )

    def store(self, results: Values) -> None:
        """Store the sums as partial sums, for the next block of terms."""
        for (p, v), value in zip(self.positions(), results, strict=True):
            store_vector(self.b, value, self.out(p, v), self.used[v])

    def finish(self, results: Values, act: str, act_args: tuple[float, ...]) -> None:
        """Add the residual, apply the activation, and store."""
        b, at = self.b, self.at
        for (p, v), value in zip(self.positions(), results, strict=True):
            if at.residual is not None:
                pointer = offset_pointer(b, at.residual, self.tile.residual_offsets[p], v * self.lanes * F32_BYTES)
                residual = load_vector(b, pointer, value.type, self.used[v], "residual")
                value = b.fadd(value, residual, name="with_residual")
            value = activate(b, act, act_args, value)
            store_vector(b, value, self.out(p, v), self.used[v])


def offset_pointer(b: ir.IRBuilder, base: Value, offset: int | Value, extra: int = 0) -> Value:
    """Return base + offset + extra."""
    if isinstance(offset, int):
        return address(b, base, offset + extra)
    return address(b, address(b, base, offset), extra)
