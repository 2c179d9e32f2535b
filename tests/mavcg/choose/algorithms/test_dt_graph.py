"""Shortest chains of conversions, against trying all chains."""

import math
import random
from itertools import permutations

import pytest

from mavcg.choose.algorithms.costs.provider import MODELLED, Cost
from mavcg.choose.algorithms.dt_graph import LAYOUTS, Size, dt_graph, dt_graphs, same_in_memory
from mavcg.choose.algorithms.sharing import cheapest_sets
from mavcg.specs.primitive import Layout, Primitive, Scenario

CHW, HCW, HWC, CHWC = Layout.CHW, Layout.HCW, Layout.HWC, Layout.CHWC


class Conversions:
    """Random costs; some routines are not there. asked: how often each was asked for."""

    def __init__(self, seed: int, missing: float = 0.2) -> None:
        self.seed, self.missing = seed, missing
        self.asked: list[tuple[object, ...]] = []

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        return None

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        self.asked.append((layout_from, layout_to, c, h, w))
        pick = random.Random(f"{self.seed} {layout_from} {layout_to} {c} {h} {w}")
        return None if pick.random() < self.missing else Cost(pick.uniform(0.1, 4), MODELLED)


def all_chains(a: Layout, b: Layout) -> list[tuple[Layout, ...]]:
    rest = [layout for layout in LAYOUTS if layout not in (a, b)]
    return [(a, *some, b) for n in range(len(rest) + 1) for some in permutations(rest, n)]


def length(costs: Conversions, chain: tuple[Layout, ...], size: Size) -> float:
    found = [costs.conversion(a, b, size.c, size.h, size.w) for a, b in zip(chain, chain[1:], strict=False)]
    return math.inf if None in found else math.fsum(one.ms for one in found if one)


@pytest.mark.parametrize("seed", range(40))
def test_the_cheapest_of_all_chains_is_found_and_told(seed: int) -> None:
    costs, size = Conversions(seed, missing=(seed % 4) / 4), Size(3, 5, 7)
    graph = dt_graph(costs, size)
    for a in LAYOUTS:
        assert graph.ms(a, a) == 0 and graph.chain(a, a) == (a,)
        for b in LAYOUTS:
            if a is b:
                continue
            best = min(length(costs, chain, size) for chain in all_chains(a, b))
            chain = graph.chain(a, b)
            assert graph.ms(a, b) == pytest.approx(best)
            assert (chain == ()) == math.isinf(best)
            if chain:
                assert (chain[0], chain[-1]) == (a, b)
                assert length(costs, chain, size) == pytest.approx(best)
                assert graph.kind(chain) == MODELLED


def test_the_paths_are_of_a_size_and_made_once_for_each() -> None:
    costs = Conversions(1, missing=0)
    of = dt_graphs(costs)
    first, other = of(Size(8, 5, 5)), of(Size(8, 5, 6))
    asked = len(costs.asked)

    assert of(Size(8, 5, 5)) is first and len(costs.asked) == asked
    assert first.direct.tolist() != other.direct.tolist()
    assert asked == 2 * len(LAYOUTS) * (len(LAYOUTS) - 1)


@pytest.mark.parametrize(
    ("size", "same"),
    [
        (Size(7, 1, 1), {CHW, HCW, HWC}),
        (Size(1, 4, 5), {CHW, HCW, HWC}),
        (Size(3, 1, 5), {CHW, HCW}),
        (Size(3, 4, 1), {HCW, HWC}),
        (Size(3, 4, 5), set()),
    ],
)
def test_layouts_that_lie_in_memory_alike_cost_nothing(size: Size, same: set[Layout]) -> None:
    graph = dt_graph(Conversions(3, missing=0), size)
    for a in LAYOUTS:
        for b in LAYOUTS:
            alike = a is b or {a, b} <= same
            assert same_in_memory(a, b, size) == alike
            assert (graph.ms(a, b) == 0) == alike


@pytest.mark.parametrize("seed", range(20))
def test_several_layouts_of_one_image_cost_what_the_cheapest_tree_does(seed: int) -> None:
    graph = dt_graph(Conversions(seed, missing=(seed % 3) / 4), Size(8, 6, 4))
    found = {(one.begin, one.layouts): one for one in cheapest_sets(graph)}
    for begin in LAYOUTS:
        others = [layout for layout in LAYOUTS if layout is not begin]
        assert found[begin, frozenset((begin,))].ms == 0
        for bits in range(1, 8):
            some = [layout for i, layout in enumerate(others) if bits >> i & 1]
            least = math.inf  # over all ways to name each layout's predecessor
            for code in range(4 ** len(some)):
                parents = [LAYOUTS[code // 4**i % 4] for i in range(len(some))]
                if _tree(begin, some, parents):
                    total = math.fsum(
                        graph.direct[LAYOUTS.index(a), LAYOUTS.index(b)] for a, b in zip(parents, some, strict=True)
                    )
                    least = min(least, total)
            one = found.get((begin, frozenset((begin, *some))))
            assert (one is None) == math.isinf(least)
            if one is not None:
                assert one.ms == pytest.approx(least)
                made = {begin}
                for a, b in one.steps:
                    assert a in made and b not in made
                    made.add(b)
                assert made == one.layouts


def _tree(begin: Layout, some: list[Layout], parents: list[Layout]) -> bool:
    of = dict(zip(some, parents, strict=True))
    for layout in some:
        seen = {layout}
        while layout is not begin:
            layout = of.get(layout, layout)
            if layout in seen:
                return False
            seen.add(layout)
    return True
