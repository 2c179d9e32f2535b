"""Place buffers with known lifetimes in one arena, so that those alive at the same time do not overlap."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

ALIGNMENT = 64  # of every buffer, in bytes: a cache line, and the longest vector


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
    """offsets: in bytes, by buffer. lower_bound_bytes: the largest sum of buffers in use at one step, below which no
    placement can be."""

    offsets: dict[str, int]
    bytes: int
    lower_bound_bytes: int


def aligned(size: int, to: int = ALIGNMENT) -> int:
    """The size rounded up."""
    return -(-size // to) * to


def place_buffers(buffers: Sequence[Lifetime]) -> Arena:
    """An arena in which buffers that meet do not overlap.

    Greedy by size, largest first, each at the lowest offset that is free all its life (Pisarchyk and Lee, "Efficient
    Memory Management for Deep Neural Net Inference", 2020, section 5); by two other orders too, and the smallest
    arena is taken.
    """
    orders: tuple[Callable[[Lifetime], tuple[int | str, ...]], ...] = (
        lambda b: (-b.bytes, b.first, b.name),
        lambda b: (-b.bytes * (1 + b.last - b.first), b.first, b.name),
        lambda b: (b.first, -b.bytes, b.name),
    )
    tried = [_greedy(sorted(buffers, key=order)) for order in orders]
    offsets = min(tried, key=lambda offsets: _extent(buffers, offsets))
    return Arena(offsets, _extent(buffers, offsets), lower_bound(buffers))


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
            end = max(end, aligned(start + size))
        offsets[buffer.name] = end if best < 0 else best
        placed.append(buffer)
    return offsets


def _extent(buffers: Sequence[Lifetime], offsets: dict[str, int]) -> int:
    return max((aligned(offsets[b.name] + b.bytes) for b in buffers), default=0)


def lower_bound(buffers: Sequence[Lifetime]) -> int:
    """The largest sum of sizes, each rounded up to the alignment, of buffers in use at one step."""
    steps = sorted({b.first for b in buffers})
    return max((sum(aligned(b.bytes) for b in buffers if b.first <= step <= b.last) for step in steps), default=0)
