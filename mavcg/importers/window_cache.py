"""Caches of keys and values that have room for a window, from which a run drops the oldest tokens.

A cache with room for C tokens and a window of W keeps, of T tokens, the last T while they fit, else the last T - G *
ceil((T - C) / G), where G = C - W + 1: G of them are dropped at once. They lie in order from the first row on.

Source: onnxruntime, schema of GroupQueryAttention (sliding_window_cache), version 1.32.
"""

from dataclasses import dataclass

import numpy as np

from mavcg.importers.call import NodeCall
from mavcg.importers.indices import read_rows, write_rows
from mavcg.importers.value import Value, constant

_ROWS_AT_ONCE = 64  # behind a cache is room for a multiple of these; so one form takes every run of so many tokens
CACHE_AXES = (0, 2, 1)  # of a cache [batch, heads, room, size]: those along which batch, tokens and heads lie


@dataclass(frozen=True)
class WindowRows:
    """Rows of a cache and of the run's tokens behind those that the cache has, all i64.

    places: of the run's tokens, [batch, tokens]. keys: number of rows with these, [batch]. first: position of the first
    row in the sequence, [batch, 1]. kept: rows that become the next run's cache, [batch, room].
    """

    places: Value
    keys: Value
    first: Value
    kept: Value


def rows_of_window(call: NodeCall, before: Value, after: Value, tokens: int, sizes: tuple[int, int]) -> WindowRows:
    """Return the rows of a run. before, after: tokens of each sequence without and with the run's, i64 [batch, 1].
    tokens: of the run. sizes: room of the cache and window, in tokens."""
    room, _ = sizes
    had, has = (_kept_tokens(call, total, sizes) for total in (before, after))
    dropped = call.add("sub", call.add("add", had, call.add("sub", after, before)), has)
    kept = call.add("add", dropped, _count_up(room))
    last = constant(np.int64(room + _free_rows(tokens) - 1))  # rows behind the kept ones have any content
    keys = call.add("add", had, constant(np.int64(tokens)))
    return WindowRows(
        call.add("add", had, _count_up(tokens)),
        call.reshape(keys, (keys.type.elements,)),
        call.add("sub", before, had),
        call.add("min", kept, last),
    )


def append_rows(call: NodeCall, cache: Value, x: Value, rows: WindowRows) -> tuple[Value, Value]:
    """Return a cache [batch, heads, rows, size] with the run's tokens x [batch, tokens, heads, size], and the
    cache [batch, heads, room, size] of the next run."""
    batch, heads, _, size = cache.shape
    free = constant(np.zeros((batch, heads, _free_rows(x.shape[1]), size)), cache.dtype)
    places = call.reshape(rows.places, (*rows.places.shape, 1))
    longer = write_rows(call, call.add("concat", cache, free, axis=2), places, x, CACHE_AXES)
    return longer, read_rows(call, longer, rows.kept)


def _free_rows(tokens: int) -> int:
    return -(-tokens // _ROWS_AT_ONCE) * _ROWS_AT_ONCE


def _kept_tokens(call: NodeCall, total: Value, sizes: tuple[int, int]) -> Value:
    """Return how many of a sequence's tokens a cache has."""
    room, window = sizes
    at_once = constant(np.int64(room - window + 1))
    beyond = call.add("max", call.add("sub", total, constant(np.int64(room))), constant(np.int64(0)))
    times = call.add("div", call.add("add", beyond, constant(np.int64(room - window))), at_once)
    return call.add("sub", total, call.add("mul", times, at_once))


def _count_up(count: int) -> Value:
    return constant(np.arange(count, dtype=np.int64).reshape(1, count))
