"""search_placement: valid, the optimum of brute force, proofs that hold, the same offsets again."""

from itertools import pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.memory.instance_file import first_fit
from mavcg.memory.placement_search import BufferPlacement, LiveBuffer, SearchLimits, live_peak, search_placement
from tests.conftest import examples


@st.composite
def live_buffers(draw: st.DrawFn, most: int, largest: int = 12) -> list[LiveBuffer]:
    found = []
    for _ in range(draw(st.integers(0, most))):
        first = draw(st.integers(-3, 12))
        found.append(LiveBuffer(draw(st.integers(0, largest)), first, first + draw(st.integers(1, 6))))
    return found


def stacked(buffers: list[LiveBuffer]) -> list[int]:
    """The worst valid placement: one above the other."""
    return [sum(b.size for b in buffers[:i]) for i in range(len(buffers))]


def check(buffers: list[LiveBuffer], found: BufferPlacement) -> None:
    for i, a in enumerate(buffers):
        for j, b in enumerate(buffers[:i]):
            if a.size and b.size and a.first < b.end and b.first < a.end:
                p, q = found.offsets[i], found.offsets[j]
                assert p + a.size <= q or q + b.size <= p, (a, b, p, q)
    assert min(found.offsets, default=0) >= 0
    assert live_peak(buffers) <= found.lower_bound <= found.extent
    assert found.extent == max((o + b.size for o, b in zip(found.offsets, buffers, strict=True)), default=0)


def least_extent(buffers: list[LiveBuffer]) -> int:
    """The optimum: some order of first fits is that of an optimal placement."""
    best = sum(b.size for b in buffers)
    for order in permutations(range(len(buffers))):
        tops: list[tuple[int, int, LiveBuffer]] = []
        for i in order:
            at = 0
            for start, end, other in sorted((t for t in tops), key=lambda t: t[:2]):
                if other.first < buffers[i].end and buffers[i].first < other.end:
                    if at + buffers[i].size <= start:
                        break
                    at = max(at, end)
            tops.append((at, at + buffers[i].size, buffers[i]))
        best = min(best, max((end for _, end, _ in tops), default=0))
    return best


@settings(max_examples=examples(80, 19))
@given(live_buffers(6))
def test_the_least_extent_is_found_and_proven(buffers: list[LiveBuffer]) -> None:
    kept = [b for b in buffers if b.size]
    placement = search_placement(kept, stacked(kept), SearchLimits(100_000))

    check(kept, placement)
    assert placement.extent == placement.lower_bound == least_extent(kept)


@settings(max_examples=examples(300, 19))
@given(live_buffers(30, 40), st.integers(0, 3))
def test_placements_are_valid_and_repeat(buffers: list[LiveBuffer], seed: int) -> None:
    start = first_fit(buffers)
    placement = search_placement(buffers, start, SearchLimits(3000, seed=seed))

    check(buffers, placement)
    assert placement.extent <= max((o + b.size for o, b in zip(start, buffers, strict=True)), default=0)
    assert search_placement(buffers, start, SearchLimits(3000, seed=seed)) == placement


def packed_rectangle(seed: int, cuts: int) -> list[LiveBuffer]:
    """Buffers that fill a rectangle of 60 by 96 without a gap: the optimum is 96 and has no slack anywhere."""
    import random

    generator, pieces = random.Random(seed), [(0, 60, 0, 96)]
    for _ in range(cuts):
        pieces.sort(key=lambda p: (p[1] - p[0]) * (p[3] - p[2]))
        a, b, c, d = pieces.pop()
        if b - a > 2 and (generator.random() < 0.5 or d - c < 3):
            at = generator.randint(a + 1, b - 1)
            pieces += [(a, at, c, d), (at, b, c, d)]
        else:
            at = generator.randint(c + 1, d - 1)
            pieces += [(a, b, c, at), (a, b, at, d)]
    return [LiveBuffer(d - c, a, b) for a, b, c, d in pieces]


@pytest.mark.parametrize("seed", range(6))
def test_rectangles_without_slack(seed: int) -> None:
    buffers = packed_rectangle(seed, 40)
    placement = search_placement(buffers, first_fit(buffers), SearchLimits(300_000))

    check(buffers, placement)
    assert placement.extent == placement.lower_bound == 96


def test_the_search_ends_at_what_is_enough() -> None:
    buffers = packed_rectangle(1, 40)
    start = first_fit(buffers)
    extent = max(o + b.size for o, b in zip(start, buffers, strict=True))

    assert search_placement(buffers, start, SearchLimits(300_000, enough=extent)).offsets == tuple(start)
    assert search_placement(buffers, start, SearchLimits(300_000, enough=97)).extent <= 97


def test_progress_counts_nodes() -> None:
    said: list[str] = []
    buffers = [b for seed in range(2) for b in packed_rectangle(seed, 60)]
    search_placement(buffers, first_fit(buffers), SearchLimits(20_000), said.append)

    counts = [int(line.rpartition(": ")[2].split()[0]) for line in said]
    assert counts and all(a < b for a, b in pairwise(counts)) and counts[-1] <= 20_000
