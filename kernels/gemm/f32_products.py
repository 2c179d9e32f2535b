"""The products of f32: the three callables of packed and unpacked micro-kernels, for inputs that are read in place."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import F32, I32, address, broadcast_lane, const, f32_splat, fma, load_vector, splat
from mavcg.kernels.builder.product_loop import ProductLoop, SumTile, TermPointers
from mavcg.kernels.gemm.register_tile import by_lane, keeps_inputs, lanes_f32
from mavcg.kernels.gemm.tile import F32_BYTES, WeightLayout
from mavcg.kernels.gemm.tile_ends import offset_pointer
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
