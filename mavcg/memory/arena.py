"""Placement of buffers with known lifetimes in one arena, so that buffers live at the same time do not overlap."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from mavcg.memory.placement_search import BufferPlacement, LiveBuffer, SearchLimits, search_placement

ALIGNMENT = 64  # of every buffer, in bytes: a cache line, and the longest vector
# Node limit of the search, if greedy orders exceed the live peak: seconds at most, for the largest models.
SEARCH_NODES = 100_000


@dataclass(frozen=True)
class Lifetime:
    """A buffer of `bytes` bytes that is live from step `first` to step `last`, inclusive."""

    name: str
    bytes: int
    first: int
    last: int

    def meets(self, other: "Lifetime") -> bool:
        """True if both buffers are live at some step."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Arena:
    """A placement of buffers.

    offsets: in bytes, by buffer. lower_bound_bytes: size that no placement can undercut; the live peak, or more if a
    search has proven it. buffers: those that were placed.
    """

    offsets: dict[str, int]
    bytes: int
    lower_bound_bytes: int
    buffers: tuple[Lifetime, ...] = ()

    @property
    def optimal(self) -> bool:
        """True if no arena is smaller, which is proven."""
        return self.bytes == self.lower_bound_bytes


def align_size(size: int, to: int = ALIGNMENT) -> int:
    """Return the size rounded up to a multiple of `to`."""
    return -(-size // to) * to


def place_buffers(buffers: Sequence[Lifetime], nodes: int = SEARCH_NODES) -> Arena:
    """Return an arena in which buffers that meet do not overlap; the smallest one, unless the search ends early.

    Buffers are placed greedily by size, largest first, each at the lowest offset that is free during its whole life
    (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020, section 5), and in two other
    orders. If the smallest of these arenas exceeds the lower bound, an exact search of at most `nodes` nodes follows
    (placement_search.py).
    """
    orders: tuple[Callable[[Lifetime], tuple[int | str, ...]], ...] = (
        lambda b: (-b.bytes, b.first, b.name),
        lambda b: (-b.bytes * (1 + b.last - b.first), b.first, b.name),
        lambda b: (b.first, -b.bytes, b.name),
    )
    placements = [_greedy(sorted(buffers, key=order)) for order in orders]
    offsets = min(placements, key=lambda offsets: _extent(buffers, offsets))
    bound, extent = lower_bound(buffers), _extent(buffers, offsets)
    if extent > bound and nodes:
        live = tuple(LiveBuffer(align_size(b.bytes), b.first, b.last + 1) for b in buffers)
        placed = _search_placement(live, tuple(offsets[b.name] for b in buffers), nodes)
        offsets = {b.name: offset for b, offset in zip(buffers, placed.offsets, strict=True)}
        bound, extent = max(bound, placed.lower_bound), _extent(buffers, offsets)
    return Arena(offsets, extent, bound, tuple(buffers))


def share_beginnings(buffers: Sequence[Lifetime], arena: Arena) -> Arena:
    """Return an arena as large, in which buffers begin where others do that are live soon before or after.

    A run of a shorter length uses the beginning of each buffer (docs/lengths.md): these are then the same cache lines,
    as in an arena for that length.
    """
    offsets = dict(arena.offsets)
    for buffer in sorted(buffers, key=lambda b: (b.first, b.name)):
        meeting, others = list[Lifetime](), list[Lifetime]()
        for other in buffers:
            if other is not buffer and other.bytes:
                (meeting if other.meets(buffer) else others).append(other)

        def is_free(offset: int, buffer: Lifetime = buffer, meeting: Sequence[Lifetime] = meeting) -> bool:
            """True if the buffer may begin there."""
            end = offset + buffer.bytes
            free = (end <= offsets[b.name] or offsets[b.name] + b.bytes <= offset for b in meeting)
            return end <= arena.bytes and all(free)

        others.sort(key=lambda b, buffer=buffer: (max(b.first - buffer.last, buffer.first - b.last), b.name))  # type: ignore[misc]
        begins = (offsets[other.name] for other in others)
        offsets[buffer.name] = next(filter(is_free, begins), offsets[buffer.name])
    return replace(arena, offsets=offsets)


@lru_cache(64)
def _search_placement(buffers: tuple[LiveBuffer, ...], start: tuple[int, ...], nodes: int) -> BufferPlacement:
    """Search for the smallest placement; cached, because a build plans the same buffers several times."""
    return search_placement(buffers, start, SearchLimits(nodes))


def _greedy(buffers: Sequence[Lifetime]) -> dict[str, int]:
    offsets: dict[str, int] = {}
    placed: list[Lifetime] = []
    for buffer in buffers:
        occupied = sorted((offsets[b.name], b.bytes) for b in placed if b.meets(buffer))
        best, best_gap, end = -1, -1, 0
        for start, size in occupied:
            gap = start - end
            if gap >= buffer.bytes and (best < 0 or gap < best_gap):
                best, best_gap = end, gap
            end = max(end, align_size(start + size))
        offsets[buffer.name] = end if best < 0 else best
        placed.append(buffer)
    return offsets


def _extent(buffers: Sequence[Lifetime], offsets: dict[str, int]) -> int:
    return max((align_size(offsets[b.name] + b.bytes) for b in buffers), default=0)


def lower_bound(buffers: Sequence[Lifetime]) -> int:
    """Return the live peak: the largest sum of aligned sizes of buffers that are live at one step."""
    steps = sorted({b.first for b in buffers})
    return max((sum(align_size(b.bytes) for b in buffers if b.first <= step <= b.last) for step in steps), default=0)
