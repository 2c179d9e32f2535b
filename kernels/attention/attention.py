"""Loops of an attention over batches, heads, groups of queries and blocks of keys.

The lanes of a group are queries: tokens, and the heads that share a head of keys. Each lane has the maximum and the sum
of its scores so far, and outputs that are scaled as the maximum grows. So no sum crosses lanes, and results depend on
no vector length, range of rows or greatest number of keys. A query that sees no key becomes NaN.

Method: Milakov and Gimelshein, "Online normalizer calculation for softmax"; Dao et al., "FlashAttention".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
from llvmlite import ir

from mavcg.graph import DTYPES
from mavcg.hardware.machine import LINE_BYTES
from mavcg.kernels.attention.block import KeyBlock, Lanes, Scratch, add_block
from mavcg.kernels.attention.cache_numbers import UINT4, item_bytes
from mavcg.kernels.attention.spec import BLOCK_KEYS, Attention, lower_attention
from mavcg.kernels.builder.arithmetic import round_to, widen_half
from mavcg.kernels.builder.emit import (
    F32,
    I32,
    I64,
    TYPES,
    Values,
    address,
    const,
    for_range,
    index_value,
    kernel_function,
    operands,
    prefetch_line,
    repeat,
    scale_index,
    vector,
)
from mavcg.kernels.builder.lanes import f32_splat, load_vector, store_vector
from mavcg.kernels.builder.nest_loops import maximum, minimum
from mavcg.kernels.builder.run_numbers import RunNumbers, load_numbers, times
from mavcg.specs.kernel import F32_BYTES, Machine

Value: TypeAlias = ir.Value
_UNROLL = 8  # elements of a query or result that are copied without a loop
_LOWEST = float(np.finfo(np.float32).min)  # finite, so that differences from it are numbers


def emit_attention(module: ir.Module, spec: Attention, machine: Machine) -> ir.Function:
    """Emit the loops over batches and heads, groups of queries and blocks of keys."""
    function, b = kernel_function(module, spec, machine)
    names = ["query", "key", "value", "out"]
    names += [name for name, strides in (("mask", spec.mask), ("count", spec.count)) if strides is not None]
    names += ["sink"] * spec.sink
    pointers = dict(zip(names, operands(b, *names), strict=True))
    emitter = _QueryGroups(b, machine, spec, pointers, load_numbers(b, spec.words, len(names)))
    _, begin, end, _ = function.args
    tokens, key_heads = emitter.tokens(), const(spec.heads[1])

    def head(number: Value) -> None:
        first = b.mul(number, tokens, name="first_row")
        begin_token = maximum(b, b.sub(begin, first), const(0), "begin_token")
        end_token = minimum(b, b.sub(end, first), tokens, "end_token")
        batch = b.udiv(number, key_heads, name="batch")
        at = _KeyHead(batch, b.sub(number, b.mul(batch, key_heads), name="head"), emitter.keys(batch), tokens)
        emitter.queries(at, begin_token, end_token)

    last = b.udiv(b.add(end, b.sub(tokens, const(1))), tokens, name="heads_end")
    repeat(b, b.udiv(begin, tokens, name="heads_begin"), last, head, "head_number")
    b.ret_void()
    return function


@dataclass(frozen=True)
class _KeyHead:
    """A head of keys of a batch. keys: number of keys. tokens: number of tokens of the queries."""

    batch: Value
    head: Value
    keys: Value
    tokens: Value


@dataclass(frozen=True)
class _QueryGroups:
    """Emitter of groups of queries. pointers: of the operands, by name. numbers: those that the run sets."""

    b: ir.IRBuilder
    machine: Machine
    spec: Attention
    pointers: dict[str, Value]
    numbers: RunNumbers

    @property
    def sharing(self) -> int:
        """Number of heads of queries that share a head of keys."""
        return self.spec.heads[0] // self.spec.heads[1]

    @property
    def item(self) -> int:
        """Bytes of an element of query and out."""
        return DTYPES[self.spec.dtypes[0]].itemsize

    def tokens(self) -> Value:
        """Return the number of tokens of the queries."""
        return index_value(self.numbers.at("outer.1", self.spec.outer[1]))

    def keys(self, batch: Value) -> Value:
        """Return the number of keys of a batch."""
        b, most = self.b, index_value(self.numbers.at("keys", self.spec.keys))
        if self.spec.count is None:
            return most
        size, stride = self.spec.count
        place = address(b, self.pointers["count"], scale_index(b, batch, stride * size))
        count = b.load(place, align=size, typ=ir.IntType(size * 8), name="count")
        wide = b.sext(count, I64) if size < 8 else count
        return minimum(b, maximum(b, wide, const(0)), most, "keys")

    def queries(self, at: _KeyHead, begin_token: Value, end_token: Value) -> None:
        """Emit the queries of some tokens of a head: groups of several vectors, then one of a single vector."""
        b, wide = self.b, Lanes.of_machine(self.machine)
        narrow = replace(wide, vectors=1)
        begin, end = (scale_index(b, token, self.sharing) for token in (begin_token, end_token))
        groups = b.sdiv(b.add(b.sub(end, begin), const(wide.count - narrow.count - 1)), const(wide.count))
        middle = b.add(begin, b.mul(maximum(b, groups, const(0)), const(wide.count)), name="narrow_begin")
        repeat(b, begin, middle, lambda first: self._group(at, first, end, wide), "wide", wide.count)
        repeat(b, middle, end, lambda first: self._group(at, first, end, narrow), "narrow", narrow.count)

    def _group(self, at: _KeyHead, first: Value, end: Value, lanes: Lanes) -> None:
        """Emit a group of queries from number `first` on, of which those before `end` are stored."""
        b, spec = self.b, self.spec
        scratch = Scratch.of(b, spec, lanes)
        last = b.sub(minimum(b, b.add(first, const(lanes.count)), end), const(1), name="last_query")
        self._load_queries(at, first, last, lanes, scratch)
        zeros = f32_splat(0.0, lanes.lanes)

        def clear(number: Value) -> None:
            store_vector(b, zeros, address(b, scratch.outputs, scale_index(b, number, lanes.lanes * F32_BYTES)))

        repeat(b, 0, spec.sizes[1] * lanes.vectors, clear, "cleared")
        keys_end = at.keys
        if spec.causal:
            seen = b.add(b.udiv(last, const(self.sharing)), b.add(b.sub(at.keys, at.tokens), const(1)))
            keys_end = minimum(b, keys_end, seen, "keys_end")
        initial = self._initial(lanes, scratch)

        def block(key: Value, carried: Values) -> Values:
            used = minimum(b, b.sub(keys_end, key), const(BLOCK_KEYS), "used_keys")
            if spec.mask is not None and any(spec.mask[1:3]):
                self._load_mask(at, first, last, KeyBlock(key, used), lanes, scratch)
            pointers = self._block_pointers(at, key)
            if lanes.vectors == 1:
                self._prefetch(pointers, used)
            return add_block(b, self.machine, spec, KeyBlock(key, used, pointers), lanes, scratch, carried)

        keys_begin = self._keys_begin(at, first) if spec.window else const(0)
        carried = for_range(b, keys_begin, keys_end, BLOCK_KEYS, initial, block, "keys")
        self._store(at, first, last, lanes, scratch, carried[lanes.vectors :])

    def _initial(self, lanes: Lanes, scratch: Scratch) -> Values:
        """Return the maxima and sums of a group before its first block: those of its sinks, if there are any."""
        count = lanes.lanes
        if not self.spec.sink:
            return (*[f32_splat(_LOWEST, count)] * lanes.vectors, *[f32_splat(0.0, count)] * lanes.vectors)
        places = [address(self.b, scratch.sinks, i * count * F32_BYTES) for i in range(lanes.vectors)]
        maxima = [load_vector(self.b, place, vector(F32, count), name="sinks") for place in places]
        return (*maxima, *[f32_splat(1.0, count)] * lanes.vectors)

    def _keys_begin(self, at: _KeyHead, first: Value) -> Value:
        """Return the first key of the first block that a query of a group from number `first` on sees."""
        b, spec = self.b, self.spec
        last = b.add(b.udiv(first, const(self.sharing)), b.sub(at.keys, at.tokens))
        begin = maximum(b, b.sub(last, const(spec.window - 1)), const(0))
        return b.sub(begin, b.urem(begin, const(BLOCK_KEYS)), name="keys_begin")

    def _token_and_head(self, at: _KeyHead, query: Value) -> tuple[Value, Value]:
        """Return (token, head of queries) of a query, by its number."""
        b, sharing = self.b, const(self.sharing)
        token = b.udiv(query, sharing, name="token")
        within = b.sub(query, b.mul(token, sharing))
        return token, b.add(b.mul(at.head, sharing), within, name="query_head")

    def _place(self, name: str, at: _KeyHead, token: Value, head: Value) -> Value:
        """Return the address of a token's head in an operand: query, key, value or out."""
        size = item_bytes(self.spec.cache_dtype) if name in ("key", "value") else self.item
        return self._at(name, (at.batch, token, head), (0, 1, 2), size)

    def _in_mask(self, indices: Sequence[Value], dims: Sequence[int]) -> Value:
        """Return the address of the mask's element at indices of some of its dimensions, 0 of the others."""
        return self._at("mask", indices, dims, DTYPES[self.spec.dtypes[1]].itemsize)

    def _at(self, name: str, indices: Sequence[Value], dims: Sequence[int], size: int) -> Value:
        b, offset = self.b, const(0)
        strides = self.numbers.along(name, getattr(self.spec, name))
        for index, dim in zip(indices, dims, strict=True):
            offset = b.add(offset, times(b, index, strides[dim], size))
        return address(b, self.pointers[name], offset, name)

    def _block_pointers(self, at: _KeyHead, key: Value) -> dict[str, Value]:
        """Return the addresses of a block's first key and value, and of its mask where all queries have the same."""
        spec = self.spec
        pointers = {
            "key": self._place("key", at, key, at.head),
            "value": self._place("value", at, key, at.head),
        }
        if spec.mask is not None:
            pointers["mask"] = self._in_mask((at.batch, key), (0, 3))
        return pointers

    def _prefetch(self, pointers: dict[str, Value], keys: Value) -> None:
        """Emit prefetches of a block's keys and values, whose few queries take less time than memory.

        Caches of a text that grows by a token in each run are gone through once in a run, after all weights.
        """
        b, spec = self.b, self.spec
        size = item_bytes(spec.cache_dtype)
        for name, elements in (("key", spec.sizes[0]), ("value", spec.sizes[1])):
            _, step, _, stride = getattr(spec, name)
            row_bytes = elements * size // (2 if spec.cache_dtype == UINT4 else 1)

            def row(number: Value, start: Value, step: int, row_bytes: int) -> None:
                place = address(b, start, scale_index(b, number, step * size))
                for line in range(0, row_bytes, LINE_BYTES):
                    prefetch_line(b, address(b, place, line))

            if stride == 1:
                repeat(b, const(0), keys, partial(row, start=pointers[name], step=step, row_bytes=row_bytes), "ahead")

    def _load_queries(self, at: _KeyHead, first: Value, last: Value, lanes: Lanes, scratch: Scratch) -> None:
        """Emit the copy of scaled queries, [depth, lanes], of the last key that each one sees, and of its sink.

        Lanes behind the last query are 0.
        """
        b, spec = self.b, self.spec
        zeros = f32_splat(0.0, lanes.lanes)

        def clear(number: Value) -> None:
            store_vector(b, zeros, address(b, scratch.queries, scale_index(b, number, lanes.lanes * F32_BYTES)))

        repeat(b, 0, spec.sizes[0] * lanes.vectors, clear, "unused")
        scale = ir.Constant(F32, float(np.float32(spec.scale)))
        typ, step = TYPES[spec.dtypes[0]], spec.query[3] * self.item

        def lane(number: Value) -> None:
            token, head = self._token_and_head(at, minimum(b, b.add(first, number), last))
            source = self._place("query", at, token, head)
            target = address(b, scratch.queries, scale_index(b, number, F32_BYTES))
            if spec.causal:
                seen = b.trunc(b.add(token, b.sub(at.keys, at.tokens)), I32, name="last_seen")
                b.store(seen, address(b, scratch.last_seen, scale_index(b, number, F32_BYTES)), align=4)

            if spec.sink:
                sink = load_vector(b, address(b, self.pointers["sink"], scale_index(b, head, F32_BYTES)), F32)
                b.store(sink, address(b, scratch.sinks, scale_index(b, number, F32_BYTES)), align=4)

            def element(i: Value) -> None:
                x = widen_half(b, load_vector(b, address(b, source, scale_index(b, i, step)), typ, name="q"))
                store_vector(b, b.fmul(x, scale), address(b, target, scale_index(b, i, lanes.bytes)))

            with b.if_then(b.icmp_signed("<=", b.add(first, number), last)):
                _repeat_unrolled(b, spec.sizes[0], element)

        repeat(b, 0, lanes.count, lane, "lane")

    def _load_mask(
        self, at: _KeyHead, first: Value, last: Value, block: KeyBlock, lanes: Lanes, scratch: Scratch
    ) -> None:
        """Emit the copy of a block of a mask that differs among queries, [keys, lanes]."""
        b, mask, dtype = self.b, self.spec.mask, self.spec.dtypes[1]
        assert mask is not None
        typ, size = TYPES[dtype], DTYPES[dtype].itemsize

        def lane(number: Value) -> None:
            token, head = self._token_and_head(at, minimum(b, b.add(first, number), last))
            row = self._in_mask((at.batch, token, head), (0, 2, 1))
            source = address(b, row, scale_index(b, block.first, mask[3] * size))
            target = address(b, scratch.mask, scale_index(b, number, F32_BYTES))

            def key(i: Value) -> None:
                x = widen_half(b, load_vector(b, address(b, source, scale_index(b, i, mask[3] * size)), typ, name="m"))
                store_vector(b, x, address(b, target, scale_index(b, i, lanes.bytes)))

            repeat(b, 0, block.used, key, "masked")

        repeat(b, 0, lanes.count, lane, "mask_lane")

    def _store(self, at: _KeyHead, first: Value, last: Value, lanes: Lanes, scratch: Scratch, sums: Values) -> None:
        """Emit the division of the outputs by the sums, and their copy to where they belong."""
        b, spec = self.b, self.spec
        zeros = f32_splat(0.0, lanes.lanes)
        factors = [b.fdiv(f32_splat(1.0, lanes.lanes), total, name="factor") for total in sums]
        if spec.zero_unseen:
            empty = [b.fcmp_ordered("==", total, zeros) for total in sums]
            factors = [b.select(none, zeros, factor) for none, factor in zip(empty, factors, strict=True)]

        def scale_outputs(i: Value) -> None:
            for number, factor in enumerate(factors):
                place = address(b, scratch.outputs, scale_index(b, i, lanes.bytes))
                place = address(b, place, number * lanes.lanes * F32_BYTES)
                store_vector(b, b.fmul(load_vector(b, place, factor.type), factor), place)

        repeat(b, 0, spec.sizes[1], scale_outputs, "scaled")

        def lane(number: Value) -> None:
            token, head = self._token_and_head(at, b.add(first, number))
            target = self._place("out", at, token, head)
            source = address(b, scratch.outputs, scale_index(b, number, F32_BYTES))

            def element(i: Value) -> None:
                x = load_vector(b, address(b, source, scale_index(b, i, lanes.bytes)), F32)
                place = address(b, target, scale_index(b, i, spec.out[3] * self.item))
                store_vector(b, round_to(b, x, spec.dtypes[0]), place)

            _repeat_unrolled(b, spec.sizes[1], element)

        repeat(b, 0, b.add(b.sub(last, first), const(1)), lane, "stored_lane")


def _repeat_unrolled(b: ir.IRBuilder, count: int, element: Callable[[Value], None]) -> None:
    """Emit a loop over numbers, _UNROLL of them at once where that divides their count."""
    step = _UNROLL if count % _UNROLL == 0 else 1

    def several(first: Value) -> None:
        for i in range(step):
            element(b.add(first, const(i)))

    repeat(b, 0, count, several, "element", step)


LOWER = {"attention": lower_attention}
EMIT = {Attention: emit_attention}
HALF = {"attention": (3,)}
