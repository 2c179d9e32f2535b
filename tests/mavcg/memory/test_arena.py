"""place_buffers: nothing that meets overlaps, never under the lower bound, near to the best that trying all finds."""

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.memory.arena import ALIGNMENT, Arena, Lifetime, align_size, place_buffers, share_beginnings
from tests.conftest import examples


@st.composite
def buffers(draw: st.DrawFn, most: int) -> list[Lifetime]:
    count = draw(st.integers(0, most))
    found = []
    for number in range(count):
        first = draw(st.integers(0, 20))
        found.append(Lifetime(f"b{number}", draw(st.integers(0, 5000)), first, first + draw(st.integers(0, 8))))
    return found


def check_apart(arena: Arena, given_buffers: list[Lifetime]) -> None:
    """Assert that buffers lie inside of the arena, and those that meet do not overlap."""
    for a in given_buffers:
        assert arena.offsets[a.name] % ALIGNMENT == 0
        assert arena.offsets[a.name] + a.bytes <= arena.bytes
        for b in given_buffers:
            if a.name < b.name and a.meets(b) and a.bytes and b.bytes:
                apart = (
                    arena.offsets[a.name] + a.bytes <= arena.offsets[b.name]
                    or arena.offsets[b.name] + b.bytes <= arena.offsets[a.name]
                )
                assert apart, (a, b)


@settings(max_examples=examples(200, 10))
@given(buffers(24))
def test_buffers_that_meet_do_not_overlap(given_buffers: list[Lifetime]) -> None:
    arena = place_buffers(given_buffers)
    check_apart(arena, given_buffers)
    assert arena.lower_bound_bytes <= arena.bytes <= sum(align_size(b.bytes) for b in given_buffers)


@settings(max_examples=examples(200, 10))
@given(buffers(24))
def test_buffers_that_share_beginnings_do_not_overlap_where_they_meet(given_buffers: list[Lifetime]) -> None:
    arena = place_buffers(given_buffers)
    shared = share_beginnings(given_buffers, arena)
    check_apart(shared, given_buffers)
    assert (shared.bytes, shared.lower_bound_bytes) == (arena.bytes, arena.lower_bound_bytes)
    assert len(set(shared.offsets.values())) <= max(1, len(set(arena.offsets.values())))


def test_the_buffers_of_a_chain_share_two_beginnings() -> None:
    """The layers need less and less bytes; a shorter run computes all of them in the same cache lines."""
    chain = [Lifetime(f"b{i}", size, i, i + 1) for i, size in enumerate((6400, 3200, 1600, 1600, 640, 320))]
    offsets = share_beginnings(chain, place_buffers(chain)).offsets
    assert sorted(set(offsets.values())) == [0, 6400]
    assert [offsets[f"b{i}"] for i in range(6)] == [0, 6400] * 3


def best_of_all_orders(given_buffers: list[Lifetime]) -> int:
    """The smallest arena of any first-fit order: the optimum, since some order of offsets is an optimal placement's."""
    best = sum(align_size(b.bytes) for b in given_buffers)
    for order in permutations(given_buffers):
        placed: list[tuple[int, Lifetime]] = []
        for buffer in order:
            at = 0
            for start, other in sorted(((s, o) for s, o in placed if o.meets(buffer)), key=lambda p: p[0]):
                if at + buffer.bytes <= start:
                    break
                at = max(at, align_size(start + other.bytes))
            placed.append((at, buffer))
        best = min(best, max((align_size(s + b.bytes) for s, b in placed), default=0))
    return best


@settings(max_examples=examples(60, 8))
@given(buffers(6))
def test_the_optimum(given_buffers: list[Lifetime]) -> None:
    arena = place_buffers(given_buffers)

    assert arena.bytes == arena.lower_bound_bytes == best_of_all_orders(given_buffers)
    assert arena.optimal


def test_no_nodes_leave_the_greedy_placement() -> None:
    # Greedy by size, by area and by time all miss the live peak here (found by trying).
    sizes = ((2, 2, 6), (3, 5, 8), (4, 0, 3), (2, 7, 9), (3, 0, 0), (2, 3, 5), (3, 4, 9))
    given = [Lifetime(f"b{i}", 64 * size, first, last) for i, (size, first, last) in enumerate(sizes)]

    assert place_buffers(given).bytes <= place_buffers(given, nodes=0).bytes
    assert place_buffers(given).optimal


def test_a_chain_needs_two_buffers() -> None:
    chain = [Lifetime(f"b{i}", 1000 + 64 * i, i, i + 1) for i in range(10)]
    arena = place_buffers(chain)
    assert arena.bytes == arena.lower_bound_bytes == align_size(1000 + 64 * 9) + align_size(1000 + 64 * 8)


def test_nothing_to_place() -> None:
    assert place_buffers([]).bytes == 0
