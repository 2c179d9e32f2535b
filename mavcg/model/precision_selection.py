"""The selection of each layer's precision for the least predicted time, conversions between layers included: a PBQP.

A node has the alternatives f32 and, where f16 kernels compute it, f16. A tensor has one alternative for each type that
it is made in, with and without a conversion to the other, which costs time once for all of its readers.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from math import inf

from mavcg.choose.pbqp import make_instance, solve
from mavcg.choose.predict.algorithms import node_times
from mavcg.graph import Graph, Node
from mavcg.hardware.core_model import BoardModel
from mavcg.kernels.registry import single_inputs
from mavcg.model.precision import F32, half_graph
from mavcg.passes.graph.rewrite import Rewrite

Progress = Callable[[str], None]
SINGLE, HALF = 0, 1  # alternatives of a node
# Alternatives of a tensor: (type that it is made in, types that it is there in).
_FORMS = ((SINGLE, {SINGLE}), (SINGLE, {SINGLE, HALF}), (HALF, {HALF}), (HALF, {SINGLE, HALF}))


@dataclass(frozen=True)
class PrecisionTimes:
    """Predicted times in ms; what is not in them takes none.

    single, half: of nodes in f32, and in f16, by output. to_half, to_single: of conversions, by tensor.
    """

    single: Mapping[str, float]
    half: Mapping[str, float]
    to_half: Mapping[str, float]
    to_single: Mapping[str, float]


def precision_times(
    graph: Graph, board: BoardModel, max_error: float, progress: Progress = lambda message: None, workers: int = 1
) -> PrecisionTimes:
    """Predict the times of an optimised f32 graph's nodes in both precisions, and of conversions of its tensors.

    board: of versions that compute in f16. max_error: of algorithms. A conversion is predicted between a tensor's
    producer and its readers.
    """
    halves = half_graph(graph)
    trips, down, up = _with_round_trips(graph)
    progress("predicting layers in f32 and f16")
    single, half, converted = (node_times(g, board, max_error, progress, workers) for g in (graph, halves, trips))
    # An output of the graph is converted from the tensor that its node makes.
    made_by = {node.output: node.inputs[0] for node in halves.nodes if node.op == "cast"}
    outputs = {name: half.get(name, 0.0) for name in graph.outputs if name in made_by}
    return PrecisionTimes(
        single,
        {node.output: half.get(made_by.get(node.output, node.output), 0.0) for node in graph.nodes},
        {name: converted.get(cast, 0.0) for name, cast in down.items()} | outputs,
        {name: converted.get(cast, 0.0) for name, cast in up.items()} | outputs,
    )


def _with_round_trips(graph: Graph) -> tuple[Graph, dict[str, str], dict[str, str]]:
    """Return a graph in which each f32 tensor but outputs goes to f16 and back, and these casts by tensor."""
    new, down, up = Rewrite(graph), dict[str, str](), dict[str, str]()

    def convert(name: str) -> None:
        if graph.types[name].dtype == F32 and name not in graph.outputs:
            down[name] = new.add("cast", (new.of(name),), name, to="f16")
            up[name] = new.add("cast", (down[name],), name, to="f32")
            new.alias(name, up[name])

    for name in graph.inputs:
        convert(name)
    for node in graph.nodes:
        new.keep(node)
        convert(node.output)
    return new.finish(), down, up


def fastest_single(graph: Graph, times: PrecisionTimes, single: Set[str]) -> frozenset[str]:
    """Return the outputs of the nodes with f16 kernels that stay f32 for the least predicted time.

    graph: an optimised f32 graph. times: of its nodes and tensors. single: outputs of those that must stay f32.
    """
    nodes, edges = dict[str, Sequence[float]](), list[tuple[str, str, list[list[float]]]]()
    tensors = [name for name in graph.types if graph.types[name].dtype == F32 and name not in graph.constants]
    producers = graph.producers()
    in_both = {name for name in tensors if name in producers and _is_cast_of_half(producers[name], graph)}
    for name in tensors:
        costs = [0.0, times.to_half.get(name, 0.0), 0.0, times.to_single.get(name, 0.0)]
        if name in in_both:
            costs[1] = 0.0  # the file's tensor is f16
        if name in graph.outputs:
            costs[2] = inf
        if name not in producers:
            costs[2] = costs[3] = inf
        nodes[f"tensor {name}"] = costs
    for node in graph.nodes:
        kept, name = single_inputs(node, graph), f"node {node.output}"
        can = [SINGLE] if kept is None or node.output in single or node.op == "cast" else [SINGLE, HALF]
        nodes[name] = [(times.single, times.half)[kind].get(node.output, 0.0) for kind in can]
        if f"tensor {node.output}" in nodes:
            edges.append((name, f"tensor {node.output}", _matrix(can, lambda kind, form: form[0] == kind)))
        for number, read in enumerate(node.inputs):
            if f"tensor {read}" in nodes and not _is_cast_to_half(node):
                wants = {SINGLE: SINGLE, HALF: SINGLE if number in (kept or ()) else HALF}
                edges.append((name, f"tensor {read}", _matrix(can, lambda kind, form, w=wants: w[kind] in form[1])))
    choice = solve(make_instance(nodes, edges)).choice
    return frozenset(
        node.output
        for node in graph.nodes
        if single_inputs(node, graph) is not None and choice[f"node {node.output}"] == SINGLE
    )


def _matrix(kinds: Sequence[int], allowed: Callable[..., bool]) -> list[list[float]]:
    """Return the costs of a node's alternatives with a tensor's: 0 where allowed(kind, form), else infinite."""
    return [[0.0 if allowed(kind, form) else inf for form in _FORMS] for kind in kinds]


def _is_cast_of_half(node: Node, graph: Graph) -> bool:
    return node.op == "cast" and graph.types[node.inputs[0]].dtype == "f16"


def _is_cast_to_half(node: Node) -> bool:
    return node.op == "cast" and node.attr("to") == "f16"
