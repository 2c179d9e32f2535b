"""Emitter of a direct convolution's register tile: outer products of scalars and vectors, summed over the terms.

Either the scalars are inputs and the vectors weights of neighbouring channels, or the scalars are weights and the
vectors inputs of neighbouring columns. Each output is one chain of fused multiply-adds in the order of the terms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import (
    F32,
    Values,
    address,
    const,
    fma,
    for_range,
    load_vector,
    scale_index,
    splat,
    vector,
)
from mavcg.kernels.builder.nest import shuffle
from mavcg.kernels.gemm.register_tile import by_lane
from mavcg.kernels.primitives.common import load_partial
from mavcg.kernels.primitives.direct.terms import TermLoop, TermRun, Terms
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import F32_BYTES

Value: TypeAlias = ir.Value
QUAD = 4  # lanes of a vector of scalars that are multiplied lane by lane


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
        done = 0
        for part in terms:
            here = address(self.b, weights, done * self.weight_step)
            if isinstance(part, TermRun):
                acc = self._steps(part.offsets, inputs, here, acc)
            else:
                acc = self._loop(part, inputs, here, acc)
            done += part.terms
        return acc

    def _loop(self, loop: TermLoop, inputs: Value, weights: Value, acc: Values) -> Values:
        b = self.b
        begin = address(b, inputs, loop.at)

        def iteration(index: Value, carried: Values) -> Values:
            x = address(b, begin, scale_index(b, index, loop.step), "x")
            w = address(b, weights, scale_index(b, index, loop.iteration_terms * self.weight_step), "w")
            return self.sum(loop.body, x, w, carried)

        return for_range(b, const(0), const(loop.count), 1, acc, iteration, "term")

    def _steps(self, offsets: Sequence[int], inputs: Value, weights: Value, acc: Values) -> Values:
        by_lanes = by_lane(self.machine) and self.lanes == QUAD
        input_lanes: list[list[Value]] = []  # for each scalar the lanes of its quad
        for number, offset in enumerate(offsets):
            x, w = address(self.b, inputs, offset), address(self.b, weights, number * self.weight_step)
            if not self.inputs_are_scalars:
                scalars = self._weights_by_lane(w) if by_lanes else [self._scalar(w, at) for at in self.scalars]
                acc = self._term(scalars, self._input_vectors(x), acc)
                continue
            in_quad = number % QUAD
            quad = [offset - (in_quad - i) * F32_BYTES for i in range(QUAD)]
            if by_lanes and tuple(offsets[number - in_quad : number - in_quad + QUAD]) == tuple(quad):
                if in_quad == 0:
                    input_lanes = [self._lanes_of(address(self.b, x, at)) for at in self.scalars]
                scalars = [lanes[in_quad] for lanes in input_lanes]
            else:
                scalars = [self._scalar(x, at) for at in self.scalars]
            acc = self._term(scalars, [self._weight_vector(w, at) for at in self.vectors], acc)
        return acc

    def _term(self, scalars: Sequence[Value], vectors: Sequence[Value], acc: Values) -> Values:
        positions = [(s, v) for s in range(len(scalars)) for v in range(len(vectors))]
        sums = zip(positions, acc, strict=True)
        return tuple(fma(self.b, scalars[s], vectors[v], value, f"acc_{s}_{v}") for (s, v), value in sums)

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
