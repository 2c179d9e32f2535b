"""Execution paths: the exact one equals brute force; the paper's lies between it and greedy."""

import random
from itertools import combinations

import pytest

from mavcg.accelerators.fusion.path_exact import cheapest_path
from mavcg.accelerators.fusion.path_heuristics import greedy_path, paper_path, unfused_path
from mavcg.accelerators.fusion.path_instance import ChosenPath, PathInstance, PricedGroup
from mavcg.errors import MavcgError


def brute_force(instance: PathInstance) -> float | None:
    """The least cost over all sets of groups."""
    best: float | None = None
    for count in range(1, len(instance.nodes) + 1):
        for chosen in combinations(range(len(instance.groups)), count):
            nodes = [node for index in chosen for node in instance.groups[index].nodes]
            if sorted(nodes) == sorted(instance.nodes) and instance.execution_order(chosen) is not None:
                cost = instance.cost_of(chosen)
                best = cost if best is None else min(best, cost)
    return best


def check_choice(instance: PathInstance, found: ChosenPath) -> None:
    """Each node once; each group after what it reads."""
    done: set[str] = set()
    for index in found.chosen:
        nodes = set(instance.groups[index].nodes)
        assert not nodes & done
        assert all(a in done for a, b in instance.edges if b in nodes and a not in nodes)
        done |= nodes
    assert done == set(instance.nodes)
    assert found.cost == pytest.approx(instance.cost_of(found.chosen))


def random_instance(seed: int, singles: bool) -> PathInstance:
    """A DAG of up to six nodes, groups of any nodes, also such that are not convex."""
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(rng.randint(1, 6))]
    edges = [(a, b) for a, b in combinations(names, 2) if rng.random() < 0.4]
    groups = [PricedGroup((name,), rng.randint(1, 9)) for name in names if singles or rng.random() < 0.7]
    for _ in range(rng.randint(1, 8)):
        size = rng.randint(1, min(4, len(names)))
        groups.append(PricedGroup(tuple(rng.sample(names, size)), rng.randint(-2, 12)))
    covered = {node for group in groups for node in group.nodes}
    return PathInstance.of(groups, [e for e in edges if covered.issuperset(e)])


@pytest.mark.parametrize("seeds,singles", [(range(150), True), (range(150, 250), False)])
def test_exact_equals_brute_force(seeds: range, singles: bool) -> None:
    infeasible = 0
    for seed in seeds:
        instance = random_instance(seed, singles)
        best = brute_force(instance)
        if best is None:
            infeasible += 1
            with pytest.raises(MavcgError, match="no choice of groups"):
                cheapest_path(instance)
            continue
        path = cheapest_path(instance)
        assert path.optimal
        assert path.cost == pytest.approx(best)
        check_choice(instance, path)
    assert infeasible < len(seeds) / 2


def test_cp_sat_goes_on_where_states_are_too_many() -> None:
    for seed in range(12):
        instance = random_instance(seed, singles=True)

        path = cheapest_path(instance, most_states=0)

        assert path.optimal
        assert path.cost == pytest.approx(cheapest_path(instance).cost)
        check_choice(instance, path)


def chains(seed: int) -> PathInstance:
    """Blocks of branches between barriers, with groups that stay between them, as fusion templates give."""
    rng = random.Random(seed)
    edges, groups, names, last = list[tuple[str, str]](), list[PricedGroup](), ["in"], "in"
    for block in range(rng.randint(1, 3)):
        end, heads = f"end{block}", list[str]()
        for branch in range(rng.randint(2, 3)):
            chain = [f"b{block}.{branch}.{i}" for i in range(rng.randint(1, 3))]
            heads.append(chain[0])
            names += chain
            edges += zip([last, *chain], [*chain, end], strict=True)
            for i, j in combinations(range(len(chain) + 1), 2):
                groups.append(PricedGroup(tuple(chain[i:j]), rng.randint(j - i, 3 * (j - i))))
            groups.append(PricedGroup((chain[-1], end), rng.randint(2, 5)))
        groups.append(PricedGroup(tuple(heads[:2]), rng.randint(2, 5)))
        groups.append(PricedGroup((end,), 3))
        names.append(end)
        last = end
    groups.append(PricedGroup(("in",), 1))
    rng.shuffle(groups)
    return PathInstance.of(groups, edges)


def test_the_papers_search_lies_between() -> None:
    better = 0
    for seed in range(60):
        instance = chains(seed)
        exact, paper, greedy = cheapest_path(instance), paper_path(instance), greedy_path(instance)
        for found in (exact, paper, greedy):
            check_choice(instance, found)
        # No group goes through a barrier here, so that regions are independent of each other.
        assert exact.cost == pytest.approx(paper.cost)
        assert paper.cost <= greedy.cost
        better += paper.cost < greedy.cost
        if all(len(group.nodes) > 1 for group in instance.groups) is False:
            assert greedy.cost >= exact.cost
    assert better > 10


def test_groups_through_barriers_are_the_exact_searchs_alone() -> None:
    """A diamond that fits on chip whole: the paper's search cannot take it."""
    edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    groups = [*(PricedGroup((name,), 2) for name in "abcd"), PricedGroup(("a", "b", "c", "d"), 3)]
    instance = PathInstance.of(groups, edges)

    assert cheapest_path(instance) == ChosenPath((4,), 3.0, True)
    assert paper_path(instance).cost == unfused_path(instance).cost == 8


def test_the_papers_figure_4() -> None:
    """Fusing 3 with 4 takes 5 from 4: greedy does; the best does not."""
    groups = [PricedGroup((n,), 4) for n in ("3", "4", "5")]
    groups += [PricedGroup(("3", "4"), 7), PricedGroup(("4", "5"), 5)]
    instance = PathInstance.of(groups, [("3", "4"), ("4", "5")])

    assert greedy_path(instance).cost == 11
    assert paper_path(instance).cost == cheapest_path(instance).cost == 9


def test_the_papers_search_says_where_it_would_not_end() -> None:
    """Ten branches between two barriers, and a sibling group for each pair of their heads."""
    names = [f"b{i}" for i in range(10)]
    edges = [("x", name) for name in names] + [(name, "y") for name in names]
    groups = [PricedGroup((name,), 2) for name in ("x", "y", *names)]
    groups += [PricedGroup(pair, 3) for pair in combinations(names, 2)]
    instance = PathInstance.of(groups, edges)

    with pytest.raises(MavcgError, match="use the exact search"):
        paper_path(instance, most_sets=500)
    assert paper_path(instance).cost == cheapest_path(instance).cost == 4 + 5 * 3


def test_a_long_network_stays_small() -> None:
    """300 blocks of two branches: the number of states grows with the length, not with the power of it."""
    edges, groups, last = list[tuple[str, str]](), list[PricedGroup](), "x"
    for block in range(300):
        a, b, c, end = (f"{block}{name}" for name in "abce")
        edges += [(last, a), (a, b), (b, end), (last, c), (c, end)]
        groups += [PricedGroup((n,), 2) for n in (a, b, c, end)]
        groups += [PricedGroup(g, 3) for g in ((a, b), (b, end), (c, end), (a, c))]
        last = end
    instance = PathInstance.of([PricedGroup(("x",), 1), *groups], edges)

    path = cheapest_path(instance, most_states=20_000)

    assert path.cost == 1 + 300 * 6
    assert paper_path(instance).cost == path.cost


@pytest.mark.parametrize(
    "groups,edges,message",
    [
        ([PricedGroup(("a",), 1)], [("a", "b")], "node b"),
        ([PricedGroup(("a", "b"), 1)], [("a", "b"), ("b", "a")], "cycle"),
        ([PricedGroup(("a",), 1)], [("a", "a")], "itself"),
    ],
)
def test_wrong_instances_are_refused(groups: list[PricedGroup], edges: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(MavcgError, match=message):
        PathInstance.of(groups, edges)


def test_baselines_need_single_groups() -> None:
    instance = PathInstance.of([PricedGroup(("a", "b"), 1)], [("a", "b")])

    with pytest.raises(MavcgError, match="node a"):
        unfused_path(instance)
    assert cheapest_path(instance).cost == 1
    assert cheapest_path(PathInstance.of([], [])) == ChosenPath((), 0.0, True)
