"""Memory of several users in one arena: against all orders, and against what may not overlap."""

from itertools import combinations, permutations

from hypothesis import given
from hypothesis import strategies as st

from mavcg.memory.shared_placement import place_together


def all_orders(sizes: list[int], together: set[frozenset[int]], align: int) -> int:
    """The smallest extent of placements in which each block lies as low as those before it in some order allow."""
    best = sum(sizes) + align * len(sizes)
    for order in permutations(range(len(sizes))):
        at: dict[int, int] = {}
        for n in order:
            offset = 0
            while any(
                frozenset((n, m)) in together and offset < at[m] + sizes[m] and at[m] < offset + sizes[n] for m in at
            ):
                offset += align
            at[n] = offset
        best = min(best, max((at[n] + sizes[n] for n in at), default=0))
    return best


@given(st.lists(st.integers(0, 40), max_size=5), st.sets(st.integers(0, 9)), st.sampled_from((1, 4, 8)))
def test_no_order_gives_a_smaller_arena(sizes: list[int], linked: set[int], align: int) -> None:
    pairs = [frozenset(pair) for pair in combinations(range(len(sizes)), 2)]
    together = {pairs[n] for n in linked if n < len(pairs)}

    placed = place_together(sizes, together, align)

    assert placed.optimal and placed.extent == all_orders(sizes, together, align)
    assert placed.extent == max((o + s for o, s in zip(placed.offsets, sizes, strict=True)), default=0)
    assert all(offset % align == 0 for offset in placed.offsets)
    for a, b in map(sorted, together):
        begin_a, begin_b = placed.offsets[a], placed.offsets[b]
        assert begin_a + sizes[a] <= begin_b or begin_b + sizes[b] <= begin_a or 0 in (sizes[a], sizes[b])


def test_users_that_take_turns_share_all_of_it() -> None:
    placed = place_together([100, 300, 200], frozenset(), 64)

    assert (placed.offsets, placed.extent) == ((0, 0, 0), 300)


def test_a_search_that_ends_early_still_places_everything() -> None:
    together = {frozenset(pair) for pair in combinations(range(12), 2)}

    placed = place_together([n + 1 for n in range(12)], together, 8, nodes=5)

    assert not placed.optimal and placed.extent >= sum(range(1, 13))
    assert len(set(placed.offsets)) == 12
