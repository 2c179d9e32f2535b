"""A block of keys of an attention: scores of a group of queries, their exponentials, and sums of weighted values."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from llvmlite import ir

from mavcg.graph import DTYPES
from mavcg.kernels.attention.cache_numbers import element_place, item_bytes, load_in_all_lanes
from mavcg.kernels.attention.spec import BLOCK_KEYS, Attention
from mavcg.kernels.builder.arithmetic import widen_half
from mavcg.kernels.builder.emit import (
    F32,
    I32,
    TYPES,
    Values,
    address,
    const,
    fma,
    for_range,
    index_value,
    repeat,
    scale_index,
    vector,
)
from mavcg.kernels.builder.float_math import exp_of_negative, tanh
from mavcg.kernels.builder.lanes import f32_splat, load_vector, splat, store_vector
from mavcg.kernels.builder.nest_loops import minimum
from mavcg.kernels.builder.product_loop import ProductLoop, SumTile
from mavcg.specs.kernel import F32_BYTES, Machine

Value: TypeAlias = ir.Value
_Element: TypeAlias = tuple[Values, Value]  # an element of each key of a tile, in all lanes; its number in the head
_UNROLL = 4  # elements of a head whose products are emitted without a loop; a vector of AArch64


@dataclass(frozen=True)
class Lanes:
    """The lanes of a group: `vectors` of `lanes` queries each. rows: keys, or values' elements, of a register tile."""

    lanes: int
    vectors: int
    rows: int

    @staticmethod
    def of_machine(machine: Machine) -> "Lanes":
        """Return the widest group whose register tile fits into a machine's registers."""
        lanes = min(machine.vector_bytes, 64) // F32_BYTES
        if machine.arch == "x86_64":
            return Lanes(lanes, 2, 8 if machine.vector_registers > 16 else 4)
        return Lanes(lanes, max(1, 16 // lanes), 4)

    @property
    def count(self) -> int:
        """Number of queries."""
        return self.lanes * self.vectors

    @property
    def bytes(self) -> int:
        """Bytes of an f32 of each query."""
        return self.count * F32_BYTES


@dataclass(frozen=True)
class Scratch:
    """Arrays of a group in the thread's scratch, each of some rows of an f32 of each lane.

    queries: [depth]. outputs: [width]. scores: [BLOCK_KEYS]. mask: [BLOCK_KEYS]. last_seen: [1], i32. sinks: [1],
    where there are any.
    """

    queries: Value
    outputs: Value
    scores: Value
    mask: Value
    last_seen: Value
    sinks: Value

    @staticmethod
    def of(b: ir.IRBuilder, spec: Attention, lanes: Lanes) -> "Scratch":
        """Return the arrays of a group."""
        starts, offset = list[Value](), 0
        for rows in (spec.sizes[0], spec.sizes[1], BLOCK_KEYS, BLOCK_KEYS, 1, 1):
            starts.append(address(b, b.function.args[3], offset))
            offset += rows * lanes.bytes
        return Scratch(*starts)


@dataclass(frozen=True)
class KeyBlock:
    """Keys first .. first + used - 1. pointers: to the first one in "key", "value" and "mask"."""

    first: Value
    used: Value
    pointers: dict[str, Value] = field(default_factory=dict)


def add_block(
    b: ir.IRBuilder,
    machine: Machine,
    spec: Attention,
    block: KeyBlock,
    lanes: Lanes,
    scratch: Scratch,
    carried: Values,
) -> Values:
    """Emit a block of keys. carried: maximum of each vector so far, then sums; returned with those of the block."""
    emitter = _Block(b, machine, spec, block, lanes, scratch)
    before, sums = carried[: lanes.vectors], carried[lanes.vectors :]
    maxima = emitter.scores(before)
    factors = tuple(exp_of_negative(b, b.fsub(old, new)) for old, new in zip(before, maxima, strict=True))
    added = emitter.exponentials(maxima)
    emitter.weighted_values(factors)
    return (*maxima, *(fma(b, old, factor, new) for old, factor, new in zip(sums, factors, added, strict=True)))


@dataclass(frozen=True)
class _Block:
    """Emitter of a block."""

    b: ir.IRBuilder
    machine: Machine
    spec: Attention
    block: KeyBlock
    lanes: Lanes
    scratch: Scratch

    def _vectors(self, base: Value, row: Value) -> list[Value]:
        """Return the addresses of a row's vectors in an array of the scratch."""
        start = address(self.b, base, scale_index(self.b, row, self.lanes.bytes))
        step = self.lanes.lanes * F32_BYTES
        return [address(self.b, start, number * step) for number in range(self.lanes.vectors)]

    def _load(self, base: Value, row: Value) -> list[Value]:
        typ = vector(F32, self.lanes.lanes)
        return [load_vector(self.b, place, typ) for place in self._vectors(base, row)]

    def _in_all_lanes(self, place: Value, count: int, stride: int) -> list[Value]:
        """Return `count` elements of a key or value, each in all lanes. stride: between two, in elements."""
        dtype = self.spec.cache_dtype
        return load_in_all_lanes(self.b, self.machine, dtype, place, count, stride, self.lanes.lanes)

    def scores(self, maxima: Values) -> Values:
        """Emit the scores of all keys of the block, a register tile of keys at a time; return the maxima."""
        b, used = self.b, self.block.used

        def tile(first: Value, so_far: Values) -> Values:
            # Behind the last key it is computed again, and never read.
            keys = [minimum(b, b.add(first, const(i)), b.sub(used, const(1))) for i in range(self.lanes.rows)]
            return self._tile(first, keys, so_far)

        return for_range(b, const(0), used, self.lanes.rows, maxima, tile, "score")

    def _tile(self, first: Value, keys: Sequence[Value], maxima: Values) -> Values:
        b, spec, vectors = self.b, self.spec, self.lanes.vectors
        item, (_, key_step, _, stride) = item_bytes(spec.cache_dtype), spec.key
        rows = [address(b, self.block.pointers["key"], scale_index(b, key, key_step * item)) for key in keys]

        def steps(index: Value | int, count: int) -> Iterator[_Element]:
            """Emit the loads of neighbouring elements of the keys, a step each."""
            at = index_value(index)
            elements = [
                self._in_all_lanes(element_place(b, spec.cache_dtype, row, at, stride), count, stride) for row in rows
            ]
            return ((of_keys, b.add(at, const(i))) for i, of_keys in enumerate(zip(*elements, strict=True)))

        products: ProductLoop[_Element] = ProductLoop(
            b,
            SumTile(len(keys), vectors),
            lambda step: step[0],
            lambda step: self._load(self.scratch.queries, step[1]),
            lambda total, element, query, *_: fma(b, element, query, total, "score"),
        )
        initial = tuple(value for key in keys for value in (self._zeros() if spec.softcap else self._masks(key)))
        sums = products.run(spec.sizes[0], _UNROLL, steps, initial)
        largest = list(maxima)
        for number, key in enumerate(keys):
            row = list(sums[number * vectors : (number + 1) * vectors])
            if spec.softcap:
                row = self._cap_scores(row, key)
            seen = self._visible(key, row)
            for i, place in enumerate(self._vectors(self.scratch.scores, b.add(first, const(number)))):
                store_vector(b, seen[i], place)
                largest[i] = b.select(b.fcmp_ordered(">", seen[i], largest[i]), seen[i], largest[i])
        return tuple(largest)

    def _zeros(self) -> list[Value]:
        return [f32_splat(0.0, self.lanes.lanes)] * self.lanes.vectors

    def _masks(self, key: Value) -> list[Value]:
        """Return what the mask adds to the scores of a key of the block."""
        b, mask, dtype = self.b, self.spec.mask, self.spec.dtypes[1]
        if mask is None:
            return self._zeros()
        if any(mask[1:3]):
            return self._load(self.scratch.mask, key)
        place = address(b, self.block.pointers["mask"], scale_index(b, key, mask[3] * DTYPES[dtype].itemsize))
        added = widen_half(b, load_vector(b, place, TYPES[dtype], name="mask"))
        return [splat(b, added, self.lanes.lanes)] * self.lanes.vectors

    def _cap_scores(self, scores: Sequence[Value], key: Value) -> list[Value]:
        """Return scores of a key within -softcap .. softcap, and what the mask adds to these."""
        b, cap, lanes = self.b, self.spec.softcap, self.lanes.lanes
        inverse, most = f32_splat(1 / cap, lanes), f32_splat(cap, lanes)
        capped = [b.fmul(tanh(b, b.fmul(score, inverse)), most) for score in scores]
        if self.spec.mask is None:
            return capped
        return [b.fadd(score, added) for score, added in zip(capped, self._masks(key), strict=True)]

    def _visible(self, key: Value, scores: Sequence[Value]) -> list[Value]:
        """Return the scores of a key, -inf for the queries that do not see it."""
        b, lanes = self.b, self.lanes.lanes
        if not self.spec.causal:
            return list(scores)
        number = splat(b, b.trunc(b.add(self.block.first, key), I32), lanes)
        nothing, seen = f32_splat(float("-inf"), lanes), list[Value]()
        for place, score in zip(self._vectors(self.scratch.last_seen, const(0)), scores, strict=True):
            last = load_vector(b, place, vector(I32, lanes))
            sees = b.icmp_signed("<=", number, last)
            if self.spec.window:
                distance = b.sub(last, number)
                sees = b.and_(sees, b.icmp_signed("<", distance, splat(b, const(self.spec.window, I32), lanes)))
            seen.append(b.select(sees, score, nothing))
        return seen

    def exponentials(self, maxima: Values) -> Values:
        """Emit the exponentials of the scores less the maxima, in place; return their sums."""
        b = self.b

        def key(number: Value, sums: Values) -> Values:
            new = []
            for place, largest, total in zip(self._vectors(self.scratch.scores, number), maxima, sums, strict=True):
                power = exp_of_negative(b, b.fsub(load_vector(b, place, largest.type), largest))
                store_vector(b, power, place)
                new.append(b.fadd(total, power))
            return tuple(new)

        zeros = (f32_splat(0.0, self.lanes.lanes),) * self.lanes.vectors
        return for_range(b, const(0), self.block.used, 1, zeros, key, "power")

    def weighted_values(self, factors: Values) -> None:
        """Emit outputs = outputs * factors + the block's values weighted by exponentials."""
        width, rows = self.spec.sizes[1], self.lanes.rows
        whole = width // rows * rows
        repeat(self.b, 0, whole, lambda first: self._outputs(first, rows, factors), "element", rows)
        if width > whole:
            self._outputs(const(whole), width - whole, factors)

    def _outputs(self, first: Value, count: int, factors: Values) -> None:
        """Emit `count` elements of the outputs from number `first` on."""
        b, spec, vectors = self.b, self.spec, self.lanes.vectors
        item, (_, step, _, stride) = item_bytes(spec.cache_dtype), spec.value
        values = element_place(b, spec.cache_dtype, self.block.pointers["value"], first, stride)
        rows = [self._vectors(self.scratch.outputs, b.add(first, const(i))) for i in range(count)]

        def elements(number: Value) -> Iterator[Value]:
            yield from self._elements(address(b, values, scale_index(b, number, step * item)), count, stride)

        products: ProductLoop[Value] = ProductLoop(
            b,
            SumTile(count, vectors),
            elements,
            lambda number: self._load(self.scratch.scores, number),
            lambda total, element, weight, *_: fma(b, element, weight, total, "out"),
        )
        scaled = [
            b.fmul(load_vector(b, place, factor.type), factor)
            for row in rows
            for place, factor in zip(row, factors, strict=True)
        ]
        keys = self.block.used
        sums = products.loop(const(0), keys, 1, lambda key, _: (index_value(key),), scaled, "weighted")
        for place, total in zip((place for row in rows for place in row), sums, strict=True):
            store_vector(b, total, place)

    def _elements(self, place: Value, count: int, stride: int) -> list[Value]:
        """Return neighbouring elements of a value, each in all lanes, loaded a vector of AArch64 at a time."""
        found = list[Value]()
        for first in range(0, count, _UNROLL):
            at = element_place(self.b, self.spec.cache_dtype, place, const(first), stride)
            found += self._in_all_lanes(at, min(_UNROLL, count - first), stride)
        return found
