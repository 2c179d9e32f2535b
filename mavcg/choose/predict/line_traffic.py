"""Cache lines that a kernel's loops bring into a cache: distinct lines, and lines that come again.

An iteration of a loop finds in the cache what the iteration before left there if one iteration touches no more than
the cache holds (a layer condition; least-recently-used replacement, all sets alike). So the lines of a loop are the
distinct ones of all its iterations where that holds, else those of one iteration times their number.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from mavcg.choose.predict.affine_addresses import UNKNOWN
from mavcg.choose.predict.loop_accesses import Loop, LoopAccess
from mavcg.hardware.machine import LINE_BYTES

MOST_PLACES = 1 << 14  # enumerated runs of an operand; more are counted as multiples


# Share of a cache that an iteration may fill before lines are lost, and with which all are. Between them some sets of
# the cache hold their lines and others do not. Compared with a simulated Cortex-A55 without a prefetcher on the layers
# of hand_landmark: 23 of 34 kernels bring within 20 % of the lines (17 with a sharp bound at the cache's size).
KEPT, LOST = 0.7, 2.0
# A stride prefetcher begins at the third access of a stride: the line of the first access and the next one are misses;
# with a line an access, the first four (lab/simulate/csrc/caches.c).
_LINES_BEFORE, _ACCESSES_BEFORE = 2, 4
_OPEN_LINES = 4  # lines that stores may fill at the same time, piece by piece
_LINES_BEFORE_STREAMING = 4  # whole lines that stores fill before lines are written without being read

Fills = Mapping[tuple[str, bool], float]  # lines by operand and whether stores bring them
RunsOfBytes = tuple[float, np.ndarray, np.ndarray]  # factor (places that were not enumerated), starts, sizes


@dataclass(frozen=True)
class Runs:
    """Shares of an operand's lines by the order in which they are touched.

    unseen: share of the loaded lines that a stride prefetcher does not bring in time. streamed: share of the stored
    lines that are written whole, one after the other, so that they are not read before. overlap: unseen lines whose
    fills are under way at the same time.
    """

    unseen: float
    streamed: float
    overlap: float = 1.0


def runs(loop: Loop, miss_slots: int) -> dict[str, Runs]:
    """Return how the lines of each operand follow one another. miss_slots: line fills that a core has in flight."""
    unseen: dict[str, list[tuple[float, float]]] = {}
    overlaps: dict[str, list[tuple[float, float]]] = {}
    streamed: dict[str, list[tuple[float, float]]] = {}
    for path, accesses in _innermost(loop, ()):
        heads = [(a, *_seen_of_run(a, path)) for a in _streams([a for a in accesses if not a.is_store])]
        together = min(miss_slots, max(1, sum(1 for _, _, seen in heads if seen < 0.5)))
        for access, lines, seen in heads:
            weight = access.executions * lines
            unseen.setdefault(access.base, []).append((weight, 1 - seen))
            overlaps.setdefault(access.base, []).append((weight * (1 - seen), together))
        for base, places in _store_runs([a for a in accesses if a.is_store]).items():
            for access, size in places:
                whole = len(places) <= _OPEN_LINES or size % LINE_BYTES == 0
                share = _streamed_of_run(access, size, path) if whole else 0.0
                streamed.setdefault(base, []).append((access.executions * size, share))
    bases = dict.fromkeys((*unseen, *streamed))
    return {
        base: Runs(
            _mean(unseen.get(base, []), 1.0), _mean(streamed.get(base, []), 0.0), _mean(overlaps.get(base, []), 1.0)
        )
        for base in bases
    }


def _mean(weighted: Sequence[tuple[float, float]], default: float) -> float:
    total = sum(weight for weight, _ in weighted)
    return sum(weight * value for weight, value in weighted) / total if total else default


def _innermost(loop: Loop, outer: tuple[Loop, ...]) -> Iterator[tuple[tuple[Loop, ...], tuple[LoopAccess, ...]]]:
    """Yield the accesses of each loop outside of inner ones, with the loops around them, the innermost first."""
    path = (loop, *outer)
    if loop.accesses:
        yield path, loop.accesses
    for inner in loop.inner:
        yield from _innermost(inner, path)


def _streams(loads: Sequence[LoopAccess]) -> list[LoopAccess]:
    """Return one load for each stream of lines: those of an operand that are less than a line apart count once."""
    heads: list[LoopAccess] = []
    for load in sorted(loads, key=lambda a: (a.base, a.offset)):
        last = heads[-1] if heads else None
        alike = last is not None and (last.base, last.strides) == (load.base, load.strides)
        if last is None or not alike or load.offset - last.offset >= LINE_BYTES:
            heads.append(load)
    return heads


def _moves(access: LoopAccess, path: Sequence[Loop]) -> list[tuple[float, float]]:
    """Return (stride, trips) of the loops that move an access, the innermost first."""
    moving = (loop for loop in path if access.strides.get(loop.name) and loop.trips > 1)
    return [(access.strides[loop.name], loop.trips) for loop in moving]


def _seen_of_run(access: LoopAccess, path: Sequence[Loop]) -> tuple[float, float]:
    """Return the lines of a run of accesses of one stride, and the share of them that a prefetcher foresees."""
    moves = _moves(access, path)
    if "?" in access.strides or not moves or abs(moves[0][0]) == UNKNOWN:
        return max(1.0, access.bytes / LINE_BYTES), 0.0
    stride, trips = moves[0]
    for outer, times in moves[1:]:
        if outer != stride * trips:
            break
        trips *= times
    if abs(stride) >= LINE_BYTES:
        return trips, max(0.0, 1 - _ACCESSES_BEFORE / trips)
    lines = max(1.0, (abs(stride) * (trips - 1) + access.bytes) / LINE_BYTES)
    return lines, max(0.0, 1 - _LINES_BEFORE / lines)


def _store_runs(stores: Sequence[LoopAccess]) -> dict[str, list[tuple[LoopAccess, int]]]:
    """Return the runs of adjacent stores of one iteration, by operand: the first store of each, and bytes."""
    by_base: dict[str, list[tuple[LoopAccess, int]]] = {}
    for store in sorted(stores, key=lambda a: (a.base, a.offset)):
        of = by_base.setdefault(store.base, [])
        if of and of[-1][0].offset + of[-1][1] == store.offset and of[-1][0].strides == store.strides:
            of[-1] = of[-1][0], of[-1][1] + store.bytes
        else:
            of.append((store, store.bytes))
    return by_base


def _streamed_of_run(access: LoopAccess, size: int, path: Sequence[Loop]) -> float:
    """Return the share of a run's lines that are written whole after enough whole ones."""
    run = float(size)
    for stride, trips in _moves(access, path):
        if stride == run:
            run *= trips
        elif abs(stride) > run:
            break
    if run % LINE_BYTES == 0 and access.offset % LINE_BYTES == 0:
        return 1.0
    lines = -(-run // LINE_BYTES)
    return max(0.0, run // LINE_BYTES - 1 - _LINES_BEFORE_STREAMING) / lines


def fills(loop: Loop, cache_bytes: float, most: Mapping[str, float]) -> Fills:
    """Return the lines that a call brings into a cache of this size, by operand and whether stores bring them.

    most: lines of each operand; operands without an entry are not bounded.
    """
    once = _distinct(tuple(loop.all_accesses()), _inner_trips(loop, of_loop=False), most)
    kept = _kept_share(sum(once.values()) * LINE_BYTES / cache_bytes)
    line_fills = {}
    if kept > 0:
        distinct = _distinct(tuple(loop.all_accesses()), _inner_trips(loop, of_loop=True), most)
        line_fills = {key: kept * lines for key, lines in distinct.items()}
    if kept < 1:
        parts: list[tuple[float, Fills]] = [(1.0, _distinct(loop.accesses, {}, most))]
        for inner in loop.inner:
            parts.append((inner.entries / (loop.entries * loop.trips), fills(inner, cache_bytes, most)))
        for share, lines_of in parts:
            for key, lines in lines_of.items():
                line_fills[key] = line_fills.get(key, 0.0) + (1 - kept) * loop.trips * share * lines
    return line_fills


def _kept_share(filled: float) -> float:
    """Return the share of lines that a cache keeps from one iteration to the next; filled: of its size by one."""
    return min(1.0, max(0.0, (LOST - filled) / (LOST - KEPT)))


def _inner_trips(loop: Loop, of_loop: bool) -> dict[str, float]:
    trips = {loop.name: loop.trips} if of_loop else {}
    for inner in loop.inner:
        trips |= _inner_trips(inner, of_loop=True)
    return trips


def _distinct(
    accesses: Sequence[LoopAccess], trips: Mapping[str, float], most: Mapping[str, float]
) -> dict[tuple[str, bool], float]:
    """Return the distinct lines of accesses while these loops run, by operand and whether any of them is a store."""
    stored = {a.base for a in accesses if a.is_store}
    groups: dict[tuple[str, tuple[tuple[float, int], ...]], set[tuple[int, int]]] = {}
    moves_of: dict[tuple[tuple[str, float], ...], tuple[tuple[float, int], ...]] = {}  # most accesses share them
    for access in accesses:
        strides = tuple(access.strides.items())
        moves = moves_of.get(strides)
        if moves is None:
            known = ((stride, round(trips.get(name, 1.0))) for name, stride in strides if name in trips or name == "?")
            moves = moves_of[strides] = tuple(sorted((stride, count) for stride, count in known if count > 1))
        groups.setdefault((access.base, moves), set()).add((access.offset, access.offset + access.bytes))
    places_of: dict[str, list[RunsOfBytes]] = {}
    for (base, moves), places in groups.items():
        places_of.setdefault(base, []).append(_runs_of_bytes(sorted(places), moves))
    return {(base, base in stored): min(most.get(base, inf), _lines_of(of)) for base, of in places_of.items()}


def _runs_of_bytes(places: Sequence[tuple[int, int]], moves: Sequence[tuple[float, int]]) -> RunsOfBytes:
    """Return the runs of bytes of these places, moved by each multiple of each stride up to its number of trips."""
    starts = np.array([begin for begin, _ in places], dtype=np.int64)
    starts, sizes = _merge_runs(starts, np.array([end - begin for begin, end in places], dtype=np.int64))
    times = 1.0
    for stride, trips in sorted(moves, key=lambda m: abs(m[0])):
        step = abs(stride)
        if step == UNKNOWN:
            times *= trips
        elif step <= max(int(sizes.min()), LINE_BYTES):
            sizes = sizes + round(step * (trips - 1))
            starts = starts + (round(stride * (trips - 1)) if stride < 0 else 0)
        elif len(starts) * trips > MOST_PLACES:
            times *= trips
        else:
            moved = np.rint(stride * np.arange(trips)).astype(np.int64)
            starts = (starts[None, :] + moved[:, None]).ravel()
            sizes = np.tile(sizes, trips)
        if step != UNKNOWN:
            starts, sizes = _merge_runs(starts, sizes)
    return times, starts, sizes


def _lines_of(runs_of_bytes: Sequence[RunsOfBytes]) -> float:
    """Return the distinct lines of an operand's runs; those with different factors are taken for different lines."""
    total = 0.0
    for times in dict.fromkeys(factor for factor, _, _ in runs_of_bytes):
        starts = np.concatenate([s for factor, s, _ in runs_of_bytes if factor == times])
        sizes = np.concatenate([s for factor, _, s in runs_of_bytes if factor == times])
        starts, sizes = _merge_runs(starts, sizes)
        first, last = starts // LINE_BYTES, (starts + sizes - 1) // LINE_BYTES
        begin = np.maximum(first, np.concatenate(([first[0] - 1], np.maximum.accumulate(last)[:-1])) + 1)
        total += times * float(np.maximum(0, last - begin + 1).sum())
    return total


def _merge_runs(starts: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return runs of bytes in order, overlapping and adjacent ones as one."""
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], starts[order] + sizes[order]
    ends = np.maximum.accumulate(ends)
    first = np.concatenate(([True], starts[1:] > ends[:-1]))
    begins = starts[first]
    last = np.concatenate((ends[:-1][first[1:]], ends[-1:]))
    return begins, last - begins
