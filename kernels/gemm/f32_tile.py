"""The parts of an f32 register tile: its prologue and epilogue, and the three callables of its products.

The prologue is the bias, or partial sums; the epilogue is the residual, the activation, the store. Inputs are read in
place, weights are packed or not.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import (
    F32,
    I32,
    Values,
    address,
    broadcast_lane,
    const,
    f32_splat,
    fma,
    load_vector,
    splat,
    store_vector,
)
from mavcg.kernels.builder.product_loop import ProductLoop, SumTile, TermPointers, prefetch
from mavcg.kernels.gemm.register_tile import by_lane, keeps_inputs, lanes_f32
from mavcg.kernels.gemm.tile import F32_BYTES, LINE_BYTES, Pointers, RegisterTile, WeightLayout
from mavcg.specs.kernel import Machine

Value: TypeAlias = ir.Value
QUAD = 4  # lanes of a vector of inputs that are multiplied lane by lane


@dataclass(frozen=True)
class F32Term:
    """A term of some unrolled ones. at: pointers to the first of them. number: among them.

    quads: of each pixel the inputs of all of them, if these are loaded at once.
    """

    at: TermPointers
    number: int
    quads: Sequence[Value]


@dataclass(frozen=True)
class F32Products:
    """A pixel's input is a left value, the weights of a vector of channels are a right value.

    in_offsets: of each pixel, in bytes. used: lanes of each vector that are channels. counts: those that are computed.
    """

    b: ir.IRBuilder
    machine: Machine
    weights: WeightLayout
    in_offsets: tuple[int | Value, ...]
    used: Sequence[int]
    counts: Sequence[int]

    @property
    def loop(self) -> ProductLoop[F32Term]:
        """The emitter of the tile's terms."""
        pixels, vectors = len(self.in_offsets), len(self.counts)
        tile = SumTile(pixels, vectors, keeps_inputs(self.machine, pixels, vectors))
        return ProductLoop(self.b, tile, self.inputs, self.weight_vectors, self.multiply_add)

    def steps(self, at: TermPointers, count: int) -> Iterator[F32Term]:
        """Emit the loads of the inputs of `count` terms, if these are loaded at once, and return the terms."""
        quads, typ = list[Value](), ir.VectorType(F32, QUAD)
        if by_lane(self.machine) and count == QUAD:
            quads = [load_vector(self.b, offset_pointer(self.b, at.left, o), typ, name="x4") for o in self.in_offsets]
        return (F32Term(at, number, quads) for number in range(count))

    def inputs(self, term: F32Term) -> Iterator[list[Value]]:
        """Return each pixel's input, broadcast, once for each vector of channels."""
        b, lanes, vectors = self.b, lanes_f32(self.machine), len(self.counts)
        for quad in term.quads:
            yield [broadcast_lane(b, quad, term.number, lanes)] * vectors
        short = self.counts[-1] < lanes
        for offset in () if term.quads else self.in_offsets:
            pointer = offset_pointer(b, term.at.left, offset, term.number * F32_BYTES)
            scalar = load_vector(b, pointer, F32, name="x1", align=4)
            whole = [splat(b, scalar, lanes)] * (vectors - short)
            yield [*whole, splat(b, scalar, self.counts[-1])] if short else whole

    def weight_vectors(self, term: F32Term) -> Iterator[Value]:
        """Return the weights, a vector of channels after the other."""
        return (self._weight(term, v) for v in range(len(self.counts)))

    def _weight(self, term: F32Term, vector: int) -> Value:
        b, lanes, ws = self.b, lanes_f32(self.machine), self.weights
        typ, first = ir.VectorType(F32, self.counts[vector]), term.number * ws.k_step
        used = self.counts[vector] if ws.padded else self.used[vector]
        if ws.n_step == F32_BYTES:
            return load_vector(b, address(b, term.at.right, first + ws.offset(vector * lanes)), typ, used, "w")
        gathered: Value = f32_splat(0.0, self.counts[vector])
        for lane in range(used):
            pointer = address(b, term.at.right, first + ws.offset(vector * lanes + lane))
            gathered = b.insert_element(gathered, b.load(pointer, align=4, typ=F32), const(lane, I32))
        return gathered

    def multiply_add(self, total: Value, x: list[Value], weight: Value, pixel: int, vector: int) -> Value:
        """Return total + x * weight, rounded once."""
        return fma(self.b, x[vector], weight, total, f"acc_{pixel}_{vector}")


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

    def finish(self, results: Values, activate: Callable[[Value], Value]) -> None:
        """Add the residual, apply the activation, and store."""
        b, at = self.b, self.at
        for (p, v), value in zip(self.positions(), results, strict=True):
            if at.residual is not None:
                pointer = offset_pointer(b, at.residual, self.tile.residual_offsets[p], v * self.lanes * F32_BYTES)
                residual = load_vector(b, pointer, value.type, self.used[v], "residual")
                value = b.fadd(value, residual, name="with_residual")
            value = activate(value)
            store_vector(b, value, self.out(p, v), self.used[v])


def offset_pointer(b: ir.IRBuilder, base: Value, offset: int | Value, extra: int = 0) -> Value:
    """Return base + offset + extra."""
    if isinstance(offset, int):
        return address(b, base, offset + extra)
    return address(b, address(b, base, offset), extra)
