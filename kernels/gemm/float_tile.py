"""The parts of a register tile of floats: its prologue and epilogue, and the three callables of its products.

The prologue is the bias, or partial sums; the epilogue is the residual, the activation, the store. Inputs are read in
place, weights are packed or not. Prologue and epilogue compute in f32, and a result is rounded once, at its store; f16
and bf16 operands are widened. But where a sum is f16, the bias is rounded and added in f16, unless a residual follows.
Products of bf16 are those of their widened factors. Sums of weights in 8 bits begin with 0; at the end they are
multiplied by their channel's scale, and the bias is added, in one rounding.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.graph import DTYPES
from mavcg.hardware.machine import LINE_BYTES
from mavcg.kernels.builder.arithmetic import convert, half_of_pairs, round_to, widen_bf16, widen_half
from mavcg.kernels.builder.emit import BF16, F16, F32, I32, TYPES, Values, address, const, fma, lanes_and_element
from mavcg.kernels.builder.lanes import broadcast_lane, f32_splat, load_vector, splat, store_vector
from mavcg.kernels.builder.product_loop import ProductLoop, SumTile, TermPointers, prefetch
from mavcg.kernels.builder.run_numbers import fixed_number, offset_pointer
from mavcg.kernels.gemm.loop_shape import keeps_inputs, terms_at_once, vector_lanes
from mavcg.kernels.gemm.tile import F32_BYTES, Pointers, RegisterTile, WeightLayout
from mavcg.specs.kernel import Machine

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class FloatTerm:
    """A term of some unrolled ones. at: pointers to the first of them. number: among them.

    vectors: of each pixel the inputs of several terms, if these are loaded at once. lane: the term's.
    """

    at: TermPointers
    number: int
    vectors: Sequence[Value]
    lane: int


@dataclass(frozen=True)
class FloatProducts:
    """A pixel's input is a left value, the weights of a vector of channels are a right value.

    Their type is that of `weights`, and f32 for bf16.

    in_offsets: of each pixel, in bytes. used: lanes of each vector that are channels. counts: those that are computed.
    """

    b: ir.IRBuilder
    machine: Machine
    weights: WeightLayout
    in_offsets: tuple[int | Value, ...]
    used: Sequence[int]
    counts: Sequence[int]

    @property
    def typ(self) -> ir.Type:
        """LLVM's type of an element."""
        return TYPES[self.weights.dtype]

    @property
    def loop(self) -> ProductLoop[FloatTerm]:
        """The emitter of the tile's terms."""
        pixels, vectors = len(self.in_offsets), len(self.counts)
        tile = SumTile(pixels, vectors, keeps_inputs(self.machine, pixels, vectors))
        return ProductLoop(self.b, tile, self.inputs, self.weight_vectors, self.multiply_add)

    def run(
        self, count: int, unroll: int, pointers: Callable[[Value | int, int], TermPointers], sums: Values | None
    ) -> Values:
        """Emit `count` neighbouring terms, `unroll` in each iteration.

        pointers: to some terms, by their first one. sums: so far; None where the first products begin them.
        """
        return self.loop.run(count, unroll, lambda first, some: self.steps(pointers(first, some), some), sums)

    def steps(self, at: TermPointers, count: int) -> Iterator[FloatTerm]:
        """Emit the terms; the inputs of several are loaded at once where the machine multiplies by lane."""
        number = 0
        for size in terms_at_once(self.machine, self.weights.dtype, count):
            vectors, typ = list[Value](), ir.VectorType(self.typ, size)
            if size > 1:
                first = number * self.weights.item_bytes
                vectors = [
                    load_vector(self.b, offset_pointer(self.b, at.left, offset, first), typ, name=f"x{size}")
                    for offset in self.in_offsets
                ]
            yield from (FloatTerm(at, number + lane, vectors, lane) for lane in range(size))
            number += size

    def inputs(self, term: FloatTerm) -> Iterator[list[Value]]:
        """Return each pixel's input, broadcast, once for each vector of channels."""
        b, vectors, item = self.b, len(self.counts), self.weights.item_bytes
        lanes = vector_lanes(self.machine, self.weights.dtype)
        short = self.counts[-1] < lanes
        for vector in term.vectors:
            whole = [self._of_lane(vector, term.lane, lanes)] * (vectors - short)
            yield [*whole, self._of_lane(vector, term.lane, self.counts[-1])] if short else whole
        for offset in () if term.vectors else self.in_offsets:
            pointer = offset_pointer(b, term.at.left, offset, term.number * item)
            scalar = widen_bf16(b, load_vector(b, pointer, self.typ, name="x1", align=item))
            whole = [splat(b, scalar, lanes)] * (vectors - short)
            yield [*whole, splat(b, scalar, self.counts[-1])] if short else whole

    def _of_lane(self, inputs: Value, lane: int, lanes: int) -> Value:
        """Return one of several inputs of a pixel in all lanes."""
        b = self.b
        if self.typ != BF16 or self.machine.arch != "x86_64":
            return broadcast_lane(b, widen_bf16(b, inputs), lane, lanes)
        # A load of the pair into all lanes, and a shift or a mask: no shuffles, of which Intel's cores have one unit.
        pairs = splat(b, b.bitcast(inputs, I32), lanes)
        return half_of_pairs(b, pairs, lane)

    def weight_vectors(self, term: FloatTerm) -> Iterator[Value]:
        """Return the weights, a vector of channels after the other."""
        return (self._weight(term, v) for v in range(len(self.counts)))

    def _weight(self, term: FloatTerm, vector: int) -> Value:
        b, lanes, ws = self.b, vector_lanes(self.machine, self.weights.dtype), self.weights
        typ, first = ir.VectorType(self.typ, self.counts[vector]), term.number * ws.k_step
        used = self.counts[vector] if ws.padded else self.used[vector]
        if ws.stored:
            typ = ir.VectorType(TYPES[ws.stored], self.counts[vector])
            pointer = address(b, term.at.right, first + ws.offset(vector * lanes))
            return convert(b, load_vector(b, pointer, typ, name="w_stored"), ws.stored, "f32")
        if ws.n_step == ws.item_bytes:
            loaded = load_vector(b, address(b, term.at.right, first + ws.offset(vector * lanes)), typ, used, "w")
            return widen_bf16(b, loaded)
        gathered: Value = ir.Constant(typ, [0.0] * self.counts[vector])
        for lane in range(used):
            pointer = address(b, term.at.right, first + ws.offset(vector * lanes + lane))
            gathered = b.insert_element(gathered, b.load(pointer, align=ws.item_bytes, typ=self.typ), const(lane, I32))
        return widen_bf16(b, gathered)

    def multiply_add(self, total: Value | None, x: list[Value], weight: Value, pixel: int, vector: int) -> Value:
        """Return total + x * weight, rounded once; x * weight if there is no total."""
        if total is None:
            return self.b.fmul(x[vector], weight, name=f"first_{pixel}_{vector}")
        return fma(self.b, x[vector], weight, total, f"acc_{pixel}_{vector}")


@dataclass(frozen=True)
class Ends:
    """Emitter of a register tile's prologue and epilogue. The tile's sums are one list, by pixel, then vector.

    used: lanes of each vector that are output channels. counts: lanes of each vector that are computed. lanes: lanes of
    a whole vector. dtype: of residual and output, "f32", "f16" or "bf16"; the bias is f32.
    """

    b: ir.IRBuilder
    tile: RegisterTile
    at: Pointers
    used: Sequence[int]
    counts: Sequence[int]
    lanes: int
    dtype: str = "f32"

    @property
    def item_bytes(self) -> int:
        """Size of an element of the output, in bytes."""
        return DTYPES[self.dtype].itemsize

    def positions(self) -> list[tuple[int, int]]:
        """Return (pixel, vector) of each sum."""
        return [(p, v) for p in range(len(self.tile.in_offsets)) for v in range(self.tile.vectors)]

    def start(self) -> Values:
        """Return the initial sums of the tile: the bias, or 0 where sums have scales."""
        if self.at.scales is not None:
            return self.zeros()
        vectors = [self.bias(v) for v in range(self.tile.vectors)]
        return tuple(vectors[v] for _, v in self.positions())

    def zeros(self) -> Values:
        """Return zeros of the output's type for each sum."""
        return tuple(
            ir.Constant(ir.VectorType(TYPES[self.dtype], self.counts[v]), [0.0] * self.counts[v])
            for _, v in self.positions()
        )

    def with_bias(self, sums: Values) -> Values:
        """Return sums of f16 or f32 with the bias: in f16 if they are, unless a residual follows."""
        if self.at.bias is None:
            return sums
        if self.at.residual is not None:
            sums = tuple(widen_half(self.b, value) for value in sums)
        vectors = [self.bias(v) for v in range(self.tile.vectors)]
        if lanes_and_element(sums[0].type)[1] == F16:
            vectors = [round_to(self.b, bias, self.dtype) for bias in vectors]
        return tuple(
            self.b.fadd(value, vectors[v], name="biased") for (_, v), value in zip(self.positions(), sums, strict=True)
        )

    def bias(self, vector: int) -> Value:
        """Return the biases of a vector of channels; zeros without a bias."""
        if self.at.bias is None:
            return f32_splat(0.0, self.counts[vector])
        return self._of_channels(self.at.bias, vector, "bias")

    def _of_channels(self, numbers: Value, vector: int, name: str) -> Value:
        """Load the f32 numbers of a vector of channels, of an array with one for each channel."""
        pointer = address(self.b, numbers, vector * self.lanes * F32_BYTES)
        return load_vector(self.b, pointer, ir.VectorType(F32, self.counts[vector]), self.used[vector], name)

    def with_scales(self, sums: Iterable[Value]) -> Iterator[Value]:
        """Yield sums multiplied by their channel's scale, with the bias; the sums themselves without scales."""
        if (scales := self.at.scales) is None:
            yield from sums
            return
        ends = [(self._of_channels(scales, v, "scale"), self.bias(v)) for v in range(self.tile.vectors)]
        for (_, v), value in zip(self.positions(), sums, strict=True):
            yield fma(self.b, value, *ends[v], "scaled")

    def prefetch_residual(self, next_too: bool) -> None:
        """Emit prefetches of the residual, which is rarely in the caches; the sum hides its latency.

        next_too: also of the next tile's residual, as a short sum does not hide the latency of memory.
        """
        if self.at.residual is None:
            return
        offsets = self.tile.residual_offsets
        known = [offset for offset in map(fixed_number, offsets) if offset is not None]
        if next_too and len(known) > 1:
            offsets += tuple(offset + len(known) * (known[1] - known[0]) for offset in known)
        for offset in offsets:
            for first in range(0, self.tile.vectors * self.lanes * self.item_bytes, LINE_BYTES):
                prefetch(self.b, offset_pointer(self.b, self.at.residual, offset), first)

    def out(self, pixel: int, vector: int) -> Value:
        """Return the address of an output."""
        return offset_pointer(self.b, self.at.out, self.tile.out_offsets[pixel], vector * self.lanes * self.item_bytes)

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

    def finish(self, results: Iterable[Value], activate: Callable[[Value], Value]) -> None:
        """Scale, add the residual, apply the activation, and store. activate: lanes of a sum -> lanes of the output."""
        b, at = self.b, self.at
        for (p, v), value in zip(self.positions(), self.with_scales(results), strict=True):
            if at.residual is not None:
                pointer = offset_pointer(
                    b, at.residual, self.tile.residual_offsets[p], v * self.lanes * self.item_bytes
                )
                typ = ir.VectorType(TYPES[self.dtype], self.counts[v])
                residual = widen_half(b, load_vector(b, pointer, typ, self.used[v], "residual"))
                value = b.fadd(widen_half(b, value), residual, name="with_residual")
            store_vector(b, activate(value), self.out(p, v), self.used[v])
