"""Memory that a choice takes, and the cheapest choice within a limit: against every choice of small networks."""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from bench.selection_networks import Net, squeezenet
from mavcg.choose.algorithms.choice import Choice, MemoryLimit, Problem, instance_of, make_choice, make_problem
from mavcg.choose.algorithms.costs.provider import MODELLED, Cost
from mavcg.choose.algorithms.dt_graph import Size
from mavcg.choose.algorithms.network import Network
from mavcg.choose.algorithms.strategies import LOCAL, PBQP, NothingFor, compare, select
from mavcg.choose.limits.arena_need import copies_of, image_bytes, need_at, peak, steps_of
from mavcg.choose.pbqp import Infeasible, total_cost
from mavcg.errors import MavcgError
from mavcg.graph.layout import Layout
from mavcg.kernels.primitives.registry import all_primitives, find_primitive
from mavcg.specs.primitive import Primitive, Scenario

BLOCK = 8
NAMES = ("im2row_hwc_hwc", "im2col_chw_chw", "im2row_strips_hwc_hwc", "direct_blocked_outer_chwc_chwc")


@dataclass(frozen=True)
class Drawn:
    """Costs from a seed: primitives 1 to 20, conversions of an image of so many elements up to 3."""

    seed: int

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        rng = np.random.default_rng([self.seed, scenario.c, scenario.m, scenario.k, len(primitive.name)])
        return Cost(float(rng.integers(1, 21)), MODELLED)

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        rng = np.random.default_rng([self.seed, c, h, list(Layout).index(layout_from), list(Layout).index(layout_to)])
        return Cost(float(rng.integers(1, 4)), MODELLED)


@dataclass(frozen=True)
class Level(Drawn):
    """Every conversion costs the same: there are no chains."""

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        return Cost(1.0, MODELLED)


def joined() -> Network:
    """Two branches of an image, joined twice: by a concatenation, and as a residual."""
    net = Net("joined")
    x = net.input(12, 9)
    a, b = net.conv("a", x, 16, 3, 1, 1), net.conv("b", x, 8, 1)
    c = net.concat("c", a, b)
    d = net.conv("d", c, 16, 1, residual=a)
    return net.end(d)


def primitives() -> list[Primitive]:
    known = [p for p in all_primitives() if p.name in NAMES]
    return known or list(all_primitives()[:4])


def every_choice(problem: Problem) -> list[tuple[float, int, dict[str, int]]]:
    """(cost by the instance, bytes, choice)."""
    found, instance = [], instance_of(problem)
    steps = steps_of(problem, BLOCK)
    for numbers in itertools.product(*(range(len(some)) for some in problem.alternatives.values())):
        choice = dict(zip(problem.alternatives, numbers, strict=True))
        chosen = {name: problem.alternatives[name][number] for name, number in choice.items()}
        need = max(need_at(problem, step, chosen) for step in steps)
        found.append((total_cost(instance, choice), need, choice))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_the_cheapest_of_all_choices_within_the_limit(seed: int) -> None:
    problem = make_problem(joined(), Drawn(seed), primitives())
    everything = every_choice(problem)
    needs = sorted({need for _, need, _ in everything})
    for limit in (needs[0] - 1, *needs[:: max(1, len(needs) // 6)], needs[-1]):
        limited = replace(problem, memory=MemoryLimit(limit, BLOCK))
        within = [cost for cost, need, _ in everything if need <= limit]
        if not within:
            with pytest.raises(Infeasible, match="raise the limit"):
                select(limited)
            continue
        selection = select(limited)

        assert selection.total_ms == pytest.approx(min(within))
        assert selection.proven and selection.lower_bound_ms == pytest.approx(min(within))
        assert peak(problem, selection.choice.chosen, BLOCK).bytes <= limit


def test_bytes_counted_by_hand() -> None:
    net = Net("two")
    x = net.input(3, 10)
    a = net.conv("a", x, 8, 3, 1, 1)
    b = net.conv("b", a, 5, 1)
    problem = make_problem(net.end(b), Level(0), [find_primitive("im2col_chw_chw"), find_primitive("im2row_hwc_hwc")])
    chw, hwc = Layout.CHW, Layout.HWC

    def choice(first: Layout, second: Layout) -> Choice:
        numbers = {name: 0 for name in problem.alternatives}
        for name, layout in (("a", first), ("b", second)):
            numbers[name] = next(i for i, one in enumerate(problem.alternatives[name]) if one.layout_in is layout)
        return make_choice(problem, numbers)

    in_, mid, out = 3 * 100 * 4, 8 * 100 * 4, 5 * 100 * 4
    patches, pixels = 3 * 9 * 100 * 4, 8 * 100 * 4  # the patches of a 1x1 are its image
    workspaces = [
        find_primitive("im2row_hwc_hwc").workspace_bytes(s)
        for s in (Scenario(3, 10, 10, 1, 3, 8, 1), Scenario(8, 10, 10, 1, 1, 5))
    ]
    assert patches <= workspaces[0] < patches + 128 and pixels <= workspaces[1] < pixels + 128

    def bytes_of(chosen: Choice) -> list[int]:
        return [need_at(problem, step, chosen.chosen) for step in steps_of(problem, BLOCK)]

    assert bytes_of(choice(hwc, hwc)) == [in_, in_ + mid + workspaces[0], mid + out + workspaces[1], out]
    # Converted: a copy of the input in its place; then the mid one; then the output beside its copy.
    copied = image_bytes(Size(3, 10, 10), BLOCK)
    columns = find_primitive("im2col_chw_chw").workspace_bytes(Scenario(3, 10, 10, 1, 3, 8, 1))
    mixed = bytes_of(choice(chw, hwc))
    assert mixed[1] == max(in_ + copied, copied + mid + columns)
    assert mixed[2] == max(2 * mid, mid + out + workspaces[1])
    assert bytes_of(choice(hwc, chw))[3] == out + image_bytes(Size(5, 10, 10), BLOCK)


def test_an_image_that_lives_on_counts_for_those_in_between() -> None:
    problem = make_problem(joined(), Drawn(1), primitives())
    steps = {step.node: step for step in steps_of(problem, BLOCK)}

    assert steps["b"].others == image_bytes(Size(16, 9, 9), BLOCK)  # a, for c and d
    assert [read.dies for read in steps["d"].reads] == [True, True]
    assert [read.dies for read in steps["c"].reads] == [False, True]
    link = next(i for i, one in enumerate(problem.network.links) if one.residual)
    source = problem.alternatives["a"]
    for to in problem.alternatives["d"]:
        for from_ in source:
            assert (copies_of(problem, link, from_, to) > 0) is (from_.layout_out is not to.layout_out)


def test_every_strategy_keeps_to_the_limit_or_says_that_it_cannot() -> None:
    net = squeezenet()
    problem = make_problem(net, Drawn(3), [p for p in all_primitives() if p.family in ("sum2d", "im2", "implicit")])
    free = {name: one for name, one in compare(problem).items() if one is not None}
    most = max(peak(problem, one.choice.chosen, BLOCK).bytes for one in free.values())
    least = min(peak(problem, one.choice.chosen, BLOCK).bytes for one in free.values())
    limited = replace(problem, memory=MemoryLimit((most + 3 * least) // 4, BLOCK))
    comparison = compare(limited)

    assert limited.memory is not None
    for name, one in comparison.items():
        if one is not None:
            assert peak(problem, one.choice.chosen, BLOCK).bytes <= limited.memory.bytes
            assert one.total_ms >= free[name].total_ms - 1e-9
    best = comparison[PBQP]
    assert best is not None and all(one is None or one.total_ms >= best.total_ms - 1e-9 for one in comparison.values())
    assert best.lower_bound_ms is not None and best.lower_bound_ms <= best.total_ms
    with pytest.raises(NothingFor, match="local needs"):
        own = peak(problem, free[LOCAL].choice.chosen, BLOCK).bytes
        select(replace(problem, memory=MemoryLimit(own - 1, BLOCK)), LOCAL)


def test_time_that_runs_out_leaves_a_bound() -> None:
    problem = make_problem(joined(), Drawn(2), primitives())
    needs = sorted({need for _, need, _ in every_choice(problem)})
    selection = select(replace(problem, memory=MemoryLimit(needs[-2], BLOCK)), time_limit_s=1e-9)

    assert selection.lower_bound_ms is not None and not math.isinf(selection.total_ms)
    assert selection.lower_bound_ms <= selection.total_ms
    with pytest.raises(MavcgError, match="raise the time limit"):
        select(replace(problem, memory=MemoryLimit(needs[len(needs) // 2], BLOCK)), time_limit_s=1e-9)
