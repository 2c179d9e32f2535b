"""A whole network as plans: which node is which plan, and what stands between them; interpreted, with counted bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import Array, Graph, Node
from mavcg.ops.op import node_location
from mavcg.planner.accelerators.text.interpret import CountedTraffic, count_plan, run_plan
from mavcg.planner.accelerators.text.plan import TextPlan
from mavcg.planner.layer_model.graph_layers import layers_of
from mavcg.reference.elementwise import apply_activation
from mavcg.reference.evaluate import evaluate

_PLANNED = ("conv2d", "matmul")


@dataclass(frozen=True)
class NetworkText:
    """A graph with a plan for each of its products.

    plans: by the tensor that a node makes. skipped: pads that their readers' plans have in them, and the tensor before
    each. image: the one input that is no weight.
    """

    graph: Graph
    plans: Mapping[str, TextPlan]
    skipped: Mapping[str, str]
    image: str

    def before_pads(self, name: str) -> str:
        """Return the tensor that a plan reads where its node reads `name`."""
        while name in self.skipped:
            name = self.skipped[name]
        return name


def network_text(graph: Graph, plans: Sequence[TextPlan]) -> NetworkText:
    """Put plans, in the order of `layers_of(graph)`, with the nodes that they are of.

    Raises: MavcgError for a graph with other than one image in and one tensor out in f32, or with a product that is no
    single plan.
    """
    nodes = [node for node in graph.nodes if node.op in _PLANNED]
    layers = layers_of(graph)
    if not len(nodes) == len(layers) == len(plans):
        raise MavcgError(
            f"{graph.name}: {len(plans)} plans, {len(layers)} layers and {len(nodes)} products; a network as C needs "
            "one of each for every product: convolutions of one image and products with weights"
        )
    for node in nodes:
        w = node.inputs[1]
        if node.op == "matmul" and (len(graph.types[w].shape) != 2 or w not in (*graph.constants, *graph.inputs)):
            raise MavcgError(f"{node_location(node)}: a product whose second factor is no matrix of weights")
    weights = {name for node in graph.nodes for name in node.inputs[1:] if name in graph.inputs}
    images = [name for name in graph.inputs if name not in weights]
    if len(images) != 1 or len(graph.outputs) != 1:
        raise MavcgError(
            f"{graph.name}: {len(images)} inputs and {len(graph.outputs)} outputs; a network as C has one of each"
        )
    made = dict(zip((node.output for node in nodes), plans, strict=True))
    return NetworkText(graph, made, _pads(graph, made), images[0])


def _pads(graph: Graph, plans: Mapping[str, TextPlan]) -> dict[str, str]:
    """Pad nodes that only plans read which have the padding in them, from the last to the first of a chain."""
    found: dict[str, str] = {}
    for node in reversed(graph.nodes):
        if node.op != "pad":
            continue
        readers = [other for other in graph.nodes if node.output in other.inputs]
        x = graph.types[node.inputs[0]].shape
        if readers and all(
            r.output in found or (r.output in plans and plans[r.output].info.input[2:] == x[1:3]) for r in readers
        ):
            found[node.output] = node.inputs[0]
    return found


def plan_input(text: NetworkText, node: Node, x: Array) -> Array:
    """Return the input of a node's plan, [1, channels, rows, columns], from the graph's tensor."""
    dims = text.plans[node.output].info.input
    return x.transpose(0, 3, 1, 2) if node.op == "conv2d" else x.reshape(dims[2], dims[1]).T.reshape(dims)


def plan_weights(text: NetworkText, node: Node, w: Array) -> Array:
    """Return the weights in a plan's order, [out channels, in channels, rows, columns], from the graph's tensor."""
    if node.op == "conv2d":
        return np.ascontiguousarray(w.transpose(0, 3, 1, 2))
    dims = text.plans[node.output].info.weight
    return np.ascontiguousarray((w if node.attr("transpose_b") else w.T).reshape(dims or ()))


def run_network(text: NetworkText, constants: Mapping[str, Array], image: Array) -> tuple[Array, CountedTraffic]:
    """Interpret a network's plans in order, and what stands between them as mavcg.reference defines it.

    constants: weights and biases by name, as the graph has them; image: of the shape of the graph's input. Returns: the
    output, and bytes that the plans move.
    """
    graph = text.graph
    values = {**graph.constants, **constants, text.image: image}
    moved = CountedTraffic(0, 0, 0, 0)
    for node in graph.nodes:
        if node.output in text.skipped:
            continue
        if node.output not in text.plans:
            (values[node.output],) = evaluate(node, [values[name] if name else None for name in node.inputs])
            continue
        plan = text.plans[node.output]
        x, w = values[text.before_pads(node.inputs[0])], values[node.inputs[1]]
        made = run_plan(plan, plan_input(text, node, x), plan_weights(text, node, w)).output
        moved = _sum(moved, count_plan(plan))
        shape = graph.types[node.output].shape
        y = made.transpose(0, 2, 3, 1).reshape(shape).astype(np.float32)
        for name in node.inputs[2:]:
            y = y + values[name] if name else y
        values[node.output] = apply_activation(node, y)
    return values[graph.outputs[0]], moved


def _sum(a: CountedTraffic, b: CountedTraffic) -> CountedTraffic:
    return replace(a, **{name: getattr(a, name) + getattr(b, name) for name in CountedTraffic.__dataclass_fields__})
