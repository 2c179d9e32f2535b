"""Emitter of a direct convolution's register tile: outer products of scalars and vectors, summed over the terms.

Either the scalars are inputs and the vectors weights of neighbouring channels, or the scalars are weights and the
vectors inputs of neighbouring columns. Each output is one chain of fused multiply-adds in the order of the terms.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import F32, Values, address, fma, scale_index, vector
from mavcg.kernels.builder.lanes import load_vector, shuffle, splat
from mavcg.kernels.builder.product_loop import ProductLoop, SumTile, TermPointers, nested_loops
from mavcg.kernels.gemm.loop_shape import by_lane
from mavcg.kernels.primitives.common import load_partial
from mavcg.kernels.primitives.direct.terms import TermLoop, TermRun, Terms
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import F32_BYTES

Value: TypeAlias = ir.Value
QUAD = 4  # lanes of a vector of scalars that are multiplied lane by lane


@dataclass(frozen=True)
class _OuterTerm:
    """Pointers to a term's inputs and weights. lanes: its inputs, of each scalar, if four terms' are loaded at once."""

    inputs: Value
    weights: Value
    lanes: list[Value]


@dataclass(frozen=True)
class OuterProduct:
    """Emitter of a tile's outer products, scalars times vectors for each term.

    scalars, vectors: offset of each, in bytes from the pointer of inputs or of weights. weight_step: bytes from a
    term's weights to the next term's. inputs_are_scalars: else the inputs are the vectors. used: lanes of each vector
    of inputs that may be read.
    """

    b: ir.IRBuilder
    machine: Machine
    lanes: int
    scalars: tuple[int, ...]
    vectors: tuple[int, ...]
    weight_step: int
    inputs_are_scalars: bool
    used: tuple[int, ...]

    def sum(self, terms: Sequence[Terms], inputs: Value, weights: Value, acc: Values) -> Values:
        """Emit the terms, added to acc; return the sums. acc: by scalar, then vector."""
        tile = SumTile(len(self.scalars), len(self.vectors))
        products = ProductLoop(self.b, tile, self._scalars, self._vectors, self._multiply_add)
        return self._parts(products, terms, TermPointers(inputs, weights), acc)

    def _parts(
        self, products: ProductLoop[_OuterTerm], terms: Sequence[Terms], at: TermPointers, acc: Values
    ) -> Values:
        """Emit runs and loops of terms. at: pointers to the inputs and weights of the first."""
        done = 0
        for part in terms:
            here = TermPointers(at.left, address(self.b, at.right, done * self.weight_step))
            if isinstance(part, TermRun):
                acc = products.terms(self._steps(part.offsets, here), acc)
            else:
                begin = TermPointers(address(self.b, here.left, part.at), here.right)
                inside = partial(self._parts, products, part.body)
                acc = nested_loops(self.b, (part.count,), begin, partial(self._move, part), inside, acc, "term")
            done += part.terms
        return acc

    def _move(self, loop: TermLoop, at: TermPointers, level: int, index: Value) -> TermPointers:
        """Emit the pointers of an iteration of a loop over terms."""
        x = address(self.b, at.left, scale_index(self.b, index, loop.step), "x")
        return TermPointers(
            x, address(self.b, at.right, scale_index(self.b, index, loop.iteration_terms * self.weight_step), "w")
        )

    def _steps(self, offsets: Sequence[int], at: TermPointers) -> Iterator[_OuterTerm]:
        """Emit the addresses of unrolled terms, and the loads of quads: of four inputs that lie one after the other."""
        quads: list[list[Value]] = []  # for each scalar the lanes of its quad
        for number, offset in enumerate(offsets):
            x, w = address(self.b, at.left, offset), address(self.b, at.right, number * self.weight_step)
            in_quad = number % QUAD
            quad = tuple(offset - (in_quad - i) * F32_BYTES for i in range(QUAD))
            quad_is_loaded = (
                self.inputs_are_scalars
                and self.by_lanes
                and tuple(offsets[number - in_quad : number - in_quad + QUAD]) == quad
            )
            if quad_is_loaded and in_quad == 0:
                quads = [self._lanes_of(address(self.b, x, at)) for at in self.scalars]
            lanes = [lanes[in_quad] for lanes in quads] if quad_is_loaded else []
            yield _OuterTerm(x, w, lanes)

    @property
    def by_lanes(self) -> bool:
        """True if four scalars are loaded at once and multiplied by lane."""
        return by_lane(self.machine) and self.lanes == QUAD

    def _scalars(self, term: _OuterTerm) -> Sequence[Value]:
        """Return the scalars: inputs of pixels, or weights of channels."""
        if not self.inputs_are_scalars:
            return self._weights_by_lane(term.weights) if self.by_lanes else self._single(term.weights)
        return term.lanes or self._single(term.inputs)

    def _single(self, base: Value) -> list[Value]:
        return [self._scalar(base, offset) for offset in self.scalars]

    def _vectors(self, term: _OuterTerm) -> list[Value]:
        """Return the vectors: weights of channels, or inputs of columns."""
        if not self.inputs_are_scalars:
            return self._input_vectors(term.inputs)
        return [self._weight_vector(term.weights, offset) for offset in self.vectors]

    def _multiply_add(self, total: Value, scalar: Value, vector: Value, s: int, v: int) -> Value:
        return fma(self.b, scalar, vector, total, f"acc_{s}_{v}")

    def _scalar(self, base: Value, offset: int) -> Value:
        scalar = self.b.load(address(self.b, base, offset), name="scalar", align=4, typ=F32)
        return splat(self.b, scalar, self.lanes)

    def _weights_by_lane(self, base: Value) -> list[Value]:
        """Emit loads of the contiguous scalars of one term: whole quads, which are multiplied by lane, then single
        ones."""
        count = len(self.scalars)
        scalars: list[Value] = []
        for at in range(0, count, QUAD):
            if count - at >= QUAD:
                scalars += self._lanes_of(address(self.b, base, self.scalars[at]))
            else:
                scalars += [self._scalar(base, offset) for offset in self.scalars[at:]]
        return scalars

    def _lanes_of(self, pointer: Value) -> list[Value]:
        quad = load_vector(self.b, pointer, vector(F32, QUAD), name="quad")
        return [shuffle(self.b, quad, quad, [i] * QUAD) for i in range(QUAD)]

    def _weight_vector(self, base: Value, offset: int) -> Value:
        return load_vector(self.b, address(self.b, base, offset), vector(F32, self.lanes), name="w")

    def _input_vectors(self, base: Value) -> list[Value]:
        return [
            load_partial(self.b, self.machine, address(self.b, base, at), self.lanes, used, "x")
            for at, used in zip(self.vectors, self.used, strict=True)
        ]
