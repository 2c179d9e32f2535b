"""Place buffers with known lifetimes in one arena, so that those alive at the same time do not overlap."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mavcg.memory.placement_search import BufferPlacement, LiveBuffer, SearchLimits, search_placement

ALIGNMENT = 64  # of every buffer, in bytes: a cache line, and the longest vector
# Nodes of the search where greedy orders miss the live peak: seconds at most, for the largest models.
SEARCH_NODES = 100_000


@dataclass(frozen=True)
class Lifetime:
    """A buffer of `bytes` that is in use from step `first` to step `last`, both included."""

    name: str
    bytes: int
    first: int
    last: int

    def meets(self, other: "Lifetime") -> bool:
        """True if both buffers are live at some step."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Arena:
    """offsets: in bytes, by buffer. lower_bound_bytes: no placement is below it; the largest sum of buffers in use at
    one step, or more where a search has shown that there is none."""

    offsets: dict[str, int]
    bytes: int
    lower_bound_bytes: int

    @property
    def optimal(self) -> bool:
        """True if it is proven that no arena is smaller."""
        return self.bytes == self.lower_bound_bytes


def align_size(size: int, to: int = ALIGNMENT) -> int:
    """Return the size rounded up."""
    return -(-size // to) * to


def place_buffers(buffers: Sequence[Lifetime], nodes: int = SEARCH_NODES) -> Arena:
    """Return an arena in which buffers that meet do not overlap; the smallest one, unless the search ends before.

    Greedy by size, largest first, each at the lowest offset that is free all its life (Pisarchyk and Lee, "Efficient
    Memory Management for Deep Neural Net Inference", 2020, section 5); by two other orders too. Where the smallest of
    these is above the lower bound, an exact search follows (placement_search.py), of at most so many nodes.
    """
    orders: tuple[Callable[[Lifetime], tuple[int | str, ...]], ...] = (
        lambda b: (-b.bytes, b.first, b.name),
        lambda b: (-b.bytes * (1 + b.last - b.first), b.first, b.name),
        lambda b: (b.first, -b.bytes, b.name),
    )
    tried = [_greedy(sorted(buffers, key=order)) for order in orders]
    offsets = min(tried, key=lambda offsets: _extent(buffers, offsets))
    bound, extent = lower_bound(buffers), _extent(buffers, offsets)
    if extent > bound and nodes:
        live = tuple(LiveBuffer(align_size(b.bytes), b.first, b.last + 1) for b in buffers)
        found = _search_placement(live, tuple(offsets[b.name] for b in buffers), nodes)
        offsets = {b.name: offset for b, offset in zip(buffers, found.offsets, strict=True)}
        bound, extent = max(bound, found.lower_bound), _extent(buffers, offsets)
    return Arena(offsets, extent, bound)


@lru_cache(64)
def _search_placement(buffers: tuple[LiveBuffer, ...], start: tuple[int, ...], nodes: int) -> BufferPlacement:
    """Search; once for the same buffers, which a build plans several times."""
    return search_placement(buffers, start, SearchLimits(nodes))


def _greedy(buffers: Sequence[Lifetime]) -> dict[str, int]:
    offsets: dict[str, int] = {}
    placed: list[Lifetime] = []
    for buffer in buffers:
        taken = sorted((offsets[b.name], b.bytes) for b in placed if b.meets(buffer))
        best, best_gap, end = -1, -1, 0
        for start, size in taken:
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
    """Return the largest sum of sizes, each rounded up to the alignment, of buffers in use at one step."""
    steps = sorted({b.first for b in buffers})
    return max((sum(align_size(b.bytes) for b in buffers if b.first <= step <= b.last) for step in steps), default=0)
