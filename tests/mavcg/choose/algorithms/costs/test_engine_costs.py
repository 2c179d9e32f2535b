"""Costs of alternatives in a library: the engine's algorithms as it predicts them, all others by the same scale."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest

from bench import cost_safety_factors, records
from bench.records import RESULTS
from mavcg.choose.algorithms.choice import Limits, Problem, make_choice, make_problem
from mavcg.choose.algorithms.costs.engine_costs import (
    LibraryModel,
    conversions_in_network,
    in_library,
    predicted_costs,
)
from mavcg.choose.algorithms.costs.modelled import modelled_costs
from mavcg.choose.algorithms.costs.node_costs import NO_SAFETY_FACTORS, SafetyFactors, safety_factors_of
from mavcg.choose.algorithms.costs.provider import MEASURED, Cost
from mavcg.choose.algorithms.network import network_of
from mavcg.choose.algorithms.questions import ModelQuestion
from mavcg.choose.algorithms.select_model import SelectedModel, select_for_library
from mavcg.choose.algorithms.select_workers import workers_of
from mavcg.choose.lowering.lower import lower_candidates
from mavcg.choose.predict.algorithms import WORTH, PredictedAlgorithms, predict_algorithms
from mavcg.cost.board_model import board_model
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.hardware.cost_fit import OUT_OF_ORDER_AARCH64, X86
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.passes.graph.pipeline import optimise
from mavcg.profiles.cost_fits import fit_of_kind
from mavcg.profiles.load import cores_for, load_board
from mavcg.runtime.machines import packing_for
from mavcg.specs.primitive import Layout, Primitive, Scenario
from mavcg.toolchain.target import parse_target

SAFETY_FACTORS = safety_factors_of(fit_of_kind(OUT_OF_ORDER_AARCH64))
BOARD = load_board("rk3588")
TARGET = parse_target(BOARD.target)
PACKING = packing_for(TARGET)
MODEL = board_model(cores_for(BOARD.cores), TARGET, BOARD)
OWN, F4 = "implicit_gemm_hwc_hwc", "winograd_2d_f4_k3_hwc_hwc"


def net(channels: int = 64) -> Graph:
    """3x3 convolutions: two of an image, one after the other, and one of two images at once."""
    rng = np.random.default_rng(0)
    b = GraphBuilder("net")
    ends = []
    for batch, names in ((1, ("one", "two")), (2, ("batch",))):
        x = b.input(f"x{batch}", TensorType("f32", (batch, 28, 28, channels)))
        for name in names:
            w = rng.normal(0, 0.2, (channels, 3, 3, channels)).astype(np.float32)
            x = b.add("conv2d", [x, b.constant(w)], origin=name, pads=(1, 1, 1, 1), act="relu")
        ends.append(x)
    return optimise(b.finish(ends))


def engine(graph: Graph, max_error: float = 1e-4) -> PredictedAlgorithms:
    return predict_algorithms(lower_candidates(graph, PACKING, max_error), MODEL)


def selected(graph: Graph, chosen: PredictedAlgorithms) -> SelectedModel:
    selection = select_for_library(graph, PACKING, MODEL, ModelQuestion(max_error=1e-4), chosen)
    assert selection is not None
    return selection


@pytest.fixture(autouse=True)
def no_costs_of_this_user(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path))


@pytest.fixture(scope="module")
def graph() -> Graph:
    return net()


@pytest.fixture(scope="module")
def predictions(graph: Graph) -> PredictedAlgorithms:
    return engine(graph)


def test_nothing_of_the_engines_costs_less_than_the_optimum(graph: Graph, predictions: PredictedAlgorithms) -> None:
    selection = selected(graph, predictions)
    problem, producers = selection.problem, graph.producers()
    predicted = predicted_costs(graph, predictions)
    numbers = {}
    for name, some in problem.alternatives.items():
        node = problem.network.nodes[name]
        if node.scenario is None:
            numbers[name] = next(i for i, one in enumerate(some) if one.layout_in == "HWC")
            continue
        algorithm = predictions.fastest.get(node.tensor, "")
        primitive = f"{algorithm}_hwc_hwc" if algorithm else OWN
        numbers[name] = next(i for i, one in enumerate(some) if one.name == primitive)
        of_engine = {one.name: one.cost.ms for one in some if one.name in predicted[node.tensor]}
        assert of_engine == pytest.approx(predicted[node.tensor])
        best, *_ = sorted(of_engine.items(), key=lambda pair: pair[1])
        assert best[0] == primitive and producers[node.tensor].op == "conv2d"
    its = make_choice(problem, numbers)
    assert selection.choice.total_ms <= its.total_ms
    assert selection.threads == (1, 2) and selection.as_json()["threads"] == [1, 2]  # of two clusters of two


def test_the_engines_program_is_taken_as_it_is_where_nothing_is_better(
    graph: Graph, predictions: PredictedAlgorithms
) -> None:
    """With the algorithm of the convolution of several images, too."""
    selection = selected(graph, predictions)
    assert not selection.problem.network.left_out
    assert selection.graph is graph and selection.algorithms == predictions.fastest and len(predictions.fastest) == 3


@pytest.mark.parametrize("max_error", [0.0, 9e-6])
def test_where_no_error_is_allowed_sums_are_by_their_definition(graph: Graph, max_error: float) -> None:
    exact = engine(graph, max_error)
    selection = select_for_library(graph, PACKING, MODEL, ModelQuestion(max_error=max_error), exact)
    assert selection is not None

    families = {
        one.primitive.family for some in selection.problem.alternatives.values() for one in some if one.primitive
    }
    assert "im2" in families and not families & {"winograd", "fft"}
    assert not any("winograd" in name for name in selection.algorithms.values())


def test_the_model_of_primitives_chooses_nothing_for_one_pixel() -> None:
    """Its ratios are fitted to images; for a product of one row sum2d had .6 of the implicit product's cost."""
    b = GraphBuilder("net")
    w = np.random.default_rng(0).normal(0, 0.2, (1404, 3, 3, 32)).astype(np.float32)
    x = b.input("x", TensorType("f32", (1, 3, 3, 32)))
    graph = optimise(b.finish([b.add("conv2d", [x, b.constant(w)], origin="one", stride=(3, 3))]))

    predictions = engine(graph)
    selection = selected(graph, predictions)
    assert selection.choice.chosen["one"].name == OWN
    alternatives = selection.problem.alternatives["one"]
    (own,) = (each.cost.ms for each in alternatives if each.name == OWN)
    assert len(alternatives) > 3 and min(each.cost.ms for each in alternatives) == own


SPREAD = 0.05


def plain(graph: Graph, measured: Mapping[str, float], turns: int = 0) -> Problem:
    """With modelled costs, and those that are given as measured ones, each with a spread."""
    costs = modelled_costs(workers_of(BOARD)[0])
    made = make_problem(network_of(graph, PACKING.lanes), costs, all_primitives(), Limits(1e-4))
    return replace(
        made,
        alternatives={
            name: tuple(
                replace(one, cost=Cost(measured[one.name], MEASURED, SPREAD, 5, turns)) if one.name in measured else one
                for one in some
            )
            for name, some in made.alternatives.items()
        },
    )


def costs_of(
    graph: Graph,
    predictions: PredictedAlgorithms,
    measured: Mapping[str, float],
    turns: int = 0,
    safety_factors: SafetyFactors = SAFETY_FACTORS,
) -> dict[str, float]:
    """Of the first convolution, whose image is an input: it has no border to be copied."""
    one = modelled_costs(workers_of(BOARD)[0])
    problem = in_library(
        plain(graph, measured, turns),
        graph,
        LibraryModel(one, one),
        predicted_costs(graph, predictions),
        safety_factors,
    )
    return {alternative.name: alternative.cost.ms for alternative in problem.alternatives["one"]}


def test_others_are_on_the_scale_of_the_usual_way(graph: Graph, predictions: PredictedAlgorithms) -> None:
    modelled = {one.name: one.cost.ms for one in plain(graph, {}).alternatives["one"]}
    (output,) = (node.outputs[0] for node in graph.nodes if (node.op, node.origin) == ("conv2d", "one"))
    own, *_ = predictions.considered[output]
    predicted = costs_of(graph, predictions, {})
    assert own.name == "" and predicted[OWN] == pytest.approx(own.mean_ms)
    other = "direct_blocked_channels_hwc_chw"
    one = modelled_costs(workers_of(BOARD)[0])
    step = LibraryModel(one, one).step_ms
    with_factor = SAFETY_FACTORS.modelled * modelled[other] / modelled[OWN] * own.mean_ms
    assert predicted[other] == pytest.approx(with_factor + step)
    assert 1e-4 < step < 1e-2
    (f4,) = (way for way in predictions.considered[output] if way.name == "winograd_2d_f4_k3")
    assert predicted[F4] == pytest.approx(f4.mean_ms / WORTH)
    assert min(predicted, key=predicted.__getitem__) == F4  # which is what the engine takes when nothing is selected

    # What was measured of the usual way moves the scale of all, and of what the engine would take in its place.
    twice = costs_of(graph, predictions, {OWN: 2 * own.mean_ms}, safety_factors=NO_SAFETY_FACTORS)
    once = costs_of(graph, predictions, {}, safety_factors=NO_SAFETY_FACTORS)
    own_names = {OWN, *(f"{way.name}_hwc_hwc" for way in predictions.considered[output] if way.name)}
    for name, ms in once.items():
        more = 0.0 if name in own_names else step
        assert twice[name] - more == pytest.approx(2 * (ms - more) + (SPREAD if name == OWN else 0)), name


@pytest.mark.parametrize(("turns", "factor"), [(0, SAFETY_FACTORS.alone), (14, SAFETY_FACTORS.interleaved)])
def test_what_the_engine_takes_counts_as_it_was_measured_and_all_else_for_its_upper_end(
    graph: Graph, predictions: PredictedAlgorithms, turns: int, factor: float
) -> None:
    other = "direct_blocked_channels_hwc_chw"
    one = modelled_costs(workers_of(BOARD)[0])
    step = LibraryModel(one, one).step_ms
    cost_by_name = costs_of(graph, predictions, {OWN: 0.7, F4: 0.5, other: 0.4}, turns)
    assert cost_by_name[F4] == pytest.approx(0.5)
    assert cost_by_name[OWN] == pytest.approx((0.7 + SPREAD) * factor)
    assert cost_by_name[other] == pytest.approx((0.4 + SPREAD) * factor + step)


def test_safety_factors_are_those_of_the_record() -> None:
    (table,) = records.read(RESULTS / "cost_safety_factors.json").tables
    column = table.head.index(str(cost_safety_factors.QUANTILE))
    factors = safety_factors_of(fit_of_kind(X86))
    of = {
        "modelled": factors.modelled,
        "measured alone": factors.alone,
        "measured in turns": factors.interleaved,
    }
    assert {row[0] for row in table.rows} == set(of)
    for row in table.rows:  # whose quantiles have two digits: a factor is the next twentieth above, and no less than 1
        assert max(1.0, float(row[column])) == pytest.approx(of[row[0]] - 0.025, abs=0.0301), row


def test_safety_factors_are_a_quantile_of_what_was_near_and_no_less_than_one() -> None:
    def row(said: float, took: float, kind: str) -> dict[str, object]:
        return {"said": said, "took": took, "kind": kind}

    rows = [row(1.0, 1 + n / 100, "modelled") for n in range(101)]
    rows += [
        row(cost_safety_factors.NEAR + 0.01, 9.0, "modelled"),
        row(1.0, 0.5, "measured alone"),
        row(0.8, 0.9, "measured in turns"),
    ]
    of = cost_safety_factors.summary(rows)
    assert {kind: each["count"] for kind, each in of.items()} == {
        "modelled": 101,
        "measured alone": 1,
        "measured in turns": 1,
    }
    # Three quarters took no more than 1.75 times as long; 1.125 is rounded up to a twentieth.
    assert cost_safety_factors.factors_of({"of": of}) == {
        "modelled": 1.75,
        "measured alone": 1.0,
        "measured in turns": 1.15,
    }


def test_what_was_not_measured_does_not_undercut_what_was(graph: Graph, predictions: PredictedAlgorithms) -> None:
    """All that was measured disappointed: what was not would look best."""
    cost_by_name = costs_of(graph, predictions, {F4: 50.0}, 14)
    assert cost_by_name[F4] == 50.0 and min(cost_by_name.values()) == 50.0


def test_conversions_count_for_no_less_than_modelled() -> None:
    """Measured again and again they find their image in the nearest cache."""
    one = modelled_costs(workers_of(BOARD)[0])
    asked = (Layout.HWC, Layout.CHWC, 64, 28, 28)
    modelled = one.conversion(*asked)
    assert modelled is not None and modelled.ms > 0
    for factor, counted in ((0.1, 1.0), (3.0, 3.0)):
        known = Fixed(Cost(factor * modelled.ms, MEASURED))
        conversion_cost = conversions_in_network(known, one, SAFETY_FACTORS).conversion(*asked)
        assert conversion_cost is not None and conversion_cost.kind == MEASURED
        assert conversion_cost.ms == pytest.approx(SAFETY_FACTORS.modelled * counted * modelled.ms)
    assert conversions_in_network(Fixed(None), one, SAFETY_FACTORS).conversion(*asked) is None


@dataclass(frozen=True)
class Fixed:
    """The same for everything."""

    cost: Cost | None

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        return self.cost

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        return self.cost
