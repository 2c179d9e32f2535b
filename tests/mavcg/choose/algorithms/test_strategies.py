"""Selections of small networks against trying everything, and of real ones against each other."""

import itertools
import math
import random
from collections.abc import Callable

import pytest

from mavcg.choose.algorithms.choice import Limits, Problem, instance_of, make_choice, make_problem
from mavcg.choose.algorithms.costs.modelled import modelled_costs
from mavcg.choose.algorithms.costs.provider import MODELLED, Cost
from mavcg.choose.algorithms.network import Kind, network_of
from mavcg.choose.algorithms.select_workers import board_of, workers_of
from mavcg.choose.algorithms.strategies import CANONICAL, LOCAL, PBQP, SUM2D, compare, select, strategy_names
from mavcg.choose.pbqp import Infeasible
from mavcg.errors import MavcgError
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.networks import INCEPTION, INVERTED_RESIDUALS, network
from mavcg.graph.networks.builder import NetworkBuilder
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.passes.graph.pipeline import optimise
from mavcg.specs.primitive import Layout, Primitive, Scenario


class Drawn:
    """Costs drawn for each scenario and primitive; conversions: how dear they are beside primitives."""

    def __init__(self, seed: int, conversions: float = 1.0, missing: float = 0.0) -> None:
        self.seed, self.conversions, self.missing = seed, conversions, missing

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        return Cost(scenario.macs / 1e6 * self._pick(scenario, primitive.name).uniform(0.3, 3), MODELLED)

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        pick = self._pick(layout_from, layout_to, c, h, w)
        lost = pick.random() < self.missing
        return None if lost else Cost(self.conversions * c * h * w / 1e5 * pick.uniform(0.3, 3), MODELLED)

    def _pick(self, *key: object) -> random.Random:
        return random.Random(f"{self.seed} {key}")


class Free(Drawn):
    """Conversions that cost nothing."""

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        return Cost(0.0, MODELLED)


def inception() -> Graph:
    """Two branches of one image, joined, with a residual around the last convolution."""
    b = GraphBuilder("inception")
    x = b.input("x", TensorType("f32", (1, 8, 8, 16)))

    def conv(x: str, name: str, k: int, residual: str = "") -> str:
        w = b.input(f"{name}.w", TensorType("f32", (8, k, k, b.types[x].shape[3])))
        inputs = (x, w, "", residual) if residual else (x, w)
        return b.add("conv2d", inputs, name, pads=(k // 2,) * 4)

    first = conv(x, "first", 1)
    joined = b.add("add", (conv(first, "left", 3), conv(first, "right", 1)), "joined")
    return b.finish((conv(joined, "last", 1, first),))


def googlenet() -> Graph:
    """Inception v1: nine modules of four branches that are joined."""
    n = NetworkBuilder("googlenet", 224, 224)
    x = n.max_pool(n.conv(n.image, "conv1", 64, 7, 2, 3), 3, 2, (0, 0, 1, 1))
    x = n.max_pool(n.conv(n.conv(x, "reduce", 64, 1), "conv2", 192, 3, pad=1), 3, 2, (0, 0, 1, 1))
    for i, (a, b, c, d, e, f) in enumerate(INCEPTION.values()):
        if i in (2, 7):
            x = n.max_pool(x, 3, 2, (0, 0, 1, 1))
        three, five = n.conv(x, f"{i}.3r", b, 1), n.conv(x, f"{i}.5r", d, 1)
        pool = n.conv(n.max_pool(x, 3, 1, (1, 1, 1, 1)), f"{i}.p", f, 1)
        branches = n.conv(three, f"{i}.3", c, 3, pad=1), n.conv(five, f"{i}.5", e, 5, pad=2)
        x = n.concat(n.conv(x, f"{i}.1", a, 1), *branches, pool)
    return n.finish(n.dense(n.mean(x), "classes", 1000, ""))


def mobilenet_v2() -> Graph:
    """Inverted residuals of depthwise convolutions."""
    n = NetworkBuilder("mobilenet_v2", 224, 224)
    x = n.conv(n.image, "first", 32, 3, 2, 1)
    for stage, (factor, out_ch, count, stride) in enumerate(INVERTED_RESIDUALS):
        for i in range(count):
            name, wide = f"{stage}.{i}", factor * n.shape(x)[3]
            inner = n.conv(x, f"{name}.wide", wide, 1) if factor > 1 else x
            inner = n.conv(inner, f"{name}.depth", wide, 3, stride if i == 0 else 1, 1, groups=wide)
            inner = n.conv(inner, f"{name}.narrow", out_ch, 1, act="")
            x = n.add(x, inner, f"{name}.add") if i else inner
    return n.finish(n.mean(n.conv(x, "last", 1280, 1)))


def few(seed: int) -> list[Primitive]:
    """Some primitives of different layouts, sum2d among them."""
    known = all_primitives()
    some = random.Random(f"few {seed}").sample([p for p in known if p.family != SUM2D], 5)
    return [known[0], *some]


def everything(problem: Problem) -> float:
    """The least total of all choices, by make_choice alone."""
    numbers = [range(len(found)) for found in problem.alternatives.values()]
    totals = (
        make_choice(problem, dict(zip(problem.alternatives, one, strict=True))).total_ms
        for one in itertools.product(*numbers)
    )
    return min(totals)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_pbqp_is_the_least_of_all_choices(seed: int, shared: bool) -> None:
    costs = Drawn(seed, conversions=10.0, missing=0.3 if seed == 3 else 0)
    problem = make_problem(network_of(inception()), costs, few(seed)[:4], shared=shared)
    selection = select(problem)

    assert selection.proven
    assert selection.total_ms == pytest.approx(everything(problem), rel=1e-12)
    assert selection.lower_bound_ms == pytest.approx(selection.total_ms, rel=1e-12)


@pytest.mark.parametrize(
    "name", ["alexnet", "squeezenet", *(pytest.param(name, marks=pytest.mark.long) for name in ("vgg16", "resnet50"))]
)
def test_pbqp_is_never_worse_than_any_strategy(name: str) -> None:
    read = network_of(optimise(network(name)))
    for seed, conversions in enumerate((0.1, 3.0)):
        problem = make_problem(read, Drawn(seed, conversions), all_primitives())
        comparison = compare(problem)
        best = comparison[PBQP]

        assert best is not None and best.proven
        assert set(comparison) == set(strategy_names(problem)) and None not in (comparison[LOCAL], comparison[SUM2D])
        for one in comparison.values():
            assert one is None or best.total_ms <= one.total_ms * (1 + 1e-12)


@pytest.mark.sample(1)
@pytest.mark.parametrize("board", ["random", "exynos9820"])
@pytest.mark.parametrize("make", [googlenet, mobilenet_v2])
def test_branches_and_residuals_are_solved_exactly(make: Callable[[], Graph], board: str) -> None:
    costs = Drawn(3, 2.0) if board == "random" else modelled_costs(workers_of(board_of(board))[0])
    problem = make_problem(network_of(optimise(make())), costs, all_primitives())
    comparison = compare(problem)
    best = comparison[PBQP]

    assert best is not None and best.proven
    assert all(one is None or best.total_ms <= one.total_ms * (1 + 1e-12) for one in comparison.values())
    assert len(problem.network.convolutions) == {"googlenet": 57, "mobilenet_v2": 52}[problem.network.name]


@pytest.mark.long
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["vgg16", "resnet50", "googlenet", "alexnet", "mobilenet_v2", "squeezenet", "yolov2"])
def test_networks_are_solved_exactly(name: str, seed: int, shared: bool) -> None:
    graph = {"googlenet": googlenet, "mobilenet_v2": mobilenet_v2}.get(name, lambda: network(name))()
    read = network_of(optimise(graph))
    for conversions in (0.1, 1.0, 10.0):
        problem = make_problem(read, Drawn(seed, conversions), all_primitives(), shared=shared)
        comparison = compare(problem)
        best = comparison[PBQP]
        assert best is not None and best.proven
        assert all(one is None or best.total_ms <= one.total_ms * (1 + 1e-12) for one in comparison.values())


@pytest.mark.parametrize("seed", range(3))
def test_sharing_conversions_never_costs_more_and_counts_each_once(seed: int) -> None:
    read, costs = network_of(optimise(network("squeezenet"))), Drawn(seed, 5.0)
    apart, shared = (make_problem(read, costs, all_primitives(), shared=one) for one in (False, True))
    once = select(shared)

    assert once.proven and once.total_ms <= select(apart).total_ms * (1 + 1e-12)
    made = [(one.tensor, one.chain[-1]) for one in once.choice.conversions]
    assert len(made) == len(set(made))


def test_every_image_arrives_in_the_layout_that_is_read() -> None:
    problem = make_problem(network_of(optimise(network("squeezenet"))), Drawn(7, 2.0), all_primitives())
    choice = select(problem).choice
    converted = {(one.source, one.readers[0], one.tensor, one.chain[-1]): one for one in choice.conversions}
    for link in problem.network.links:
        made, read = choice.chosen[link.source].layout_out, problem.layout_read(link, choice.chosen[link.target])
        if made is not read:
            assert converted[link.source, link.target, link.tensor, read].chain[0] is made
    ends = [node for node in problem.network.nodes.values() if node.op in ("input", "output")]
    assert {choice.chosen[node.name].layout_in for node in ends} == {Layout.HWC}


def test_with_free_conversions_every_node_takes_its_fastest_primitive() -> None:
    problem = make_problem(network_of(optimise(network("alexnet"))), Free(1), all_primitives())
    choice = select(problem).choice
    for node in problem.network.convolutions:
        fastest = min(one.cost.ms for one in problem.alternatives[node.name])
        assert choice.chosen[node.name].cost.ms == fastest


def test_strategies_take_what_they_say() -> None:
    problem = make_problem(network_of(optimise(network("alexnet"))), Drawn(2), all_primitives())
    chosen = {name: found.choice.chosen for name, found in compare(problem).items() if found}
    families = {
        name: {one.primitive.family for one in of.values() if one.primitive is not None} for name, of in chosen.items()
    }
    layouts = {
        (one.layout_in, one.layout_out)
        for node, one in chosen[LOCAL].items()
        if problem.network.nodes[node].kind is not Kind.FIXED
    }

    assert families[SUM2D] == {SUM2D}
    assert families["family:winograd"] <= {"winograd", SUM2D} and "winograd" in families["family:winograd"]
    assert layouts == {(CANONICAL, CANONICAL)}
    for node in problem.network.convolutions:
        of_family = [one for one in problem.alternatives[node.name] if one.primitive]
        fastest = min(one.cost.ms for one in of_family if one.primitive and one.primitive.family in ("im2", SUM2D))
        assert chosen["family:im2"][node.name].cost.ms == fastest


def test_limits_keep_primitives_out() -> None:
    read = network_of(optimise(network("vgg16")))
    exact = make_problem(read, Drawn(1), all_primitives(), Limits(max_error=1e-5))
    small = make_problem(read, Drawn(1), all_primitives(), Limits(workspace_bytes=0))
    for problem in (exact, small):
        for node in problem.network.convolutions:
            assert node.scenario is not None
            for one in problem.alternatives[node.name]:
                assert one.primitive is not None
                if problem is exact:
                    assert one.primitive.error_bound <= 1e-5
                else:
                    assert one.primitive.workspace_bytes(node.scenario) == 0

    with pytest.raises(MavcgError, match="is within the limits; their least error bound is 1e-05"):
        make_problem(read, Drawn(1), all_primitives(), Limits(max_error=1e-9))


def test_what_nothing_computes_is_said() -> None:
    read = network_of(optimise(network("alexnet")))
    fast = [p for p in all_primitives() if p.family == "winograd"]

    with pytest.raises(MavcgError, match="node 'conv1': no primitive computes"):
        make_problem(read, Drawn(1), fast)
    with pytest.raises(MavcgError, match="--strategy best: unknown strategy; choose one of pbqp, local, sum2d"):
        select(make_problem(read, Drawn(1), all_primitives()), "best")
    slow = [p for p in all_primitives() if p.family == SUM2D]
    with pytest.raises(
        MavcgError, match="--strategy family:fft: computes none of these convolutions within the limits"
    ):
        select(make_problem(read, Drawn(1), slow), "family:fft")


def test_without_a_way_between_layouts_there_is_no_choice() -> None:
    read = network_of(inception())
    only = [p for p in all_primitives() if p.family == SUM2D]
    problem = make_problem(read, Drawn(1, missing=1.0), only)

    with pytest.raises(Infeasible):
        select(problem)
    comparison = compare(make_problem(read, Drawn(1, missing=1.0), all_primitives()))
    assert comparison[SUM2D] is None and comparison[PBQP] is not None
    local = comparison[LOCAL]
    assert local is not None and math.isinf(local.total_ms)


def test_the_instance_does_not_depend_on_who_asks_first() -> None:
    read = network_of(inception())
    first, second = (instance_of(make_problem(read, Drawn(5), few(5))) for _ in range(2))

    assert list(first.nodes) == list(second.nodes)
    assert all((a.costs == b.costs).all() for a, b in zip(first.edges, second.edges, strict=True))
