"""The selection of precisions against the time of every choice, by the conversions that the graph then has."""

from itertools import chain, combinations
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.choose.plan import Plan
from mavcg.cost.board_model import board_model, with_half_arithmetic
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.hardware.core_model import BoardModel
from mavcg.hosts.host import find_board
from mavcg.kernels.registry import single_inputs
from mavcg.model.model_request import PlanContext
from mavcg.model.precision import half_graph
from mavcg.model.precision_selection import PrecisionTimes, fastest_single, precision_times
from mavcg.model.stages import choose_precision
from mavcg.profiles.load import cores_for
from mavcg.toolchain.target import parse_target
from tests.conftest import NO_SHRINKING, examples

COSTS = st.integers(0, 20)


def time_of(graph: Graph, single: frozenset[str], times: PrecisionTimes) -> float:
    """The sum of the nodes' times and of the conversions in the graph with these nodes in f32."""
    lowered = half_graph(graph, single)
    total = 0.0
    for node in graph.nodes:
        in_half = node.output not in single and single_inputs(node, graph) is not None
        total += (times.half if in_half else times.single).get(node.output, 0.0)
    for node in lowered.nodes:
        if node.op == "cast":
            known = {*graph.inputs, *(old.output for old in graph.nodes)}
            tensor = next(name for name in (node.inputs[0], node.output) if name in known)
            total += (times.to_half if node.attr("to") == "f16" else times.to_single).get(tensor, 0.0)
    return total


@settings(max_examples=examples(25, 6), phases=NO_SHRINKING)
@given(data=st.data())
def test_no_other_choice_is_faster(data: st.DataObject) -> None:
    b = GraphBuilder("random")
    names, used = [b.input("x", TensorType("f32", (4,)))], set[str]()
    for number in range(data.draw(st.integers(1, 6))):
        op = data.draw(st.sampled_from(["relu", "add", "tanh"]))
        count = 2 if op == "add" else 1
        read = [data.draw(st.sampled_from(names)) for _ in range(count)]
        used.update(read)
        names.append(b.add(op, read, f"n{number}"))
    also = data.draw(st.sampled_from(names[1:]))  # an output that may have readers, too
    graph = b.finish(tuple(dict.fromkeys([*(name for name in names[1:] if name not in used), also])))
    nodes = [node.output for node in graph.nodes]

    def draw(keys: list[str]) -> dict[str, float]:
        return {key: float(data.draw(COSTS)) for key in keys}

    times = PrecisionTimes(draw(nodes), draw(nodes), draw([*graph.inputs, *nodes]), draw([*graph.inputs, *nodes]))
    must = frozenset(data.draw(st.lists(st.sampled_from(nodes), max_size=2)))
    chosen = fastest_single(graph, times, must)
    assert must <= chosen
    others = chain.from_iterable(combinations(nodes, count) for count in range(len(nodes) + 1))
    best = min(time_of(graph, frozenset(other) | must, times) for other in others)
    assert time_of(graph, chosen, times) == best


def products(rows: int, size: int) -> Graph:
    b, rng = GraphBuilder("products"), np.random.default_rng(0)
    y = b.input("x", TensorType("f32", (rows, size)))
    for number in range(3):
        y = b.add("matmul", (y, b.constant(rng.standard_normal((size, size)).astype(np.float32))), f"fc{number}")
    return b.finish((y,))


def model_of_board() -> BoardModel:
    board = find_board("exynos9820")
    return with_half_arithmetic(board_model(cores_for(list(board.cores)), parse_target(board.target), board))


def times_on(graph: Graph) -> PrecisionTimes:
    return precision_times(graph, model_of_board(), 1e-4)


def test_large_products_are_in_half_and_a_lone_small_operator_is_not() -> None:
    graph = products(64, 96)
    times = times_on(graph)
    assert all(times.half[node.output] < 0.8 * times.single[node.output] for node in graph.nodes)
    assert fastest_single(graph, times, frozenset()) == frozenset()
    ends = {graph.nodes[0].output, graph.nodes[2].output}
    b = GraphBuilder("lone")
    x = b.input("x", TensorType("f32", (4096,)))
    lone = b.finish((b.add("relu", (x,), "relu"),))
    assert fastest_single(lone, times_on(lone), frozenset()) == {lone.nodes[0].output}
    assert fastest_single(graph, times, ends) >= ends


def test_the_stage_takes_the_fastest_choice_within_the_limit() -> None:
    graph = products(64, 96)
    for limit, types in ((0.5, {"f16"}), (0.0, {"f32"})):
        context = PlanContext(model_of_board(), precision="auto", max_half_error=limit)
        plan = choose_precision(Plan(graph), context)
        assert {plan.graph.types[n.output].dtype for n in plan.graph.nodes if n.op == "matmul"} == types
        assert plan.precision["max_error"] == limit and plan.precision["measured_error"] <= max(limit, 1e-6)


def test_conversions_are_predicted_for_every_tensor() -> None:
    graph: Any = products(64, 96)
    times = times_on(graph)
    names = {*graph.inputs, *(node.output for node in graph.nodes)}
    assert names - set(graph.outputs) <= times.to_half.keys() and names <= times.to_single.keys() | set(graph.inputs)
    assert all(time > 0 for time in (*times.to_half.values(), *times.to_single.values()))
