"""A whole network as plans: the plan of each product, and the operators between plans."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.accelerators.plans.text.plan import TextPlan
from mavcg.errors import MavcgError
from mavcg.graph import Array, Graph, Node
from mavcg.graph.ops.op import node_location

_PLANNED = ("conv2d", "matmul")


@dataclass(frozen=True)
class NetworkText:
    """A graph with a plan for each of its products.

    plans: by the node's output tensor. skipped: outputs of pad nodes that the plans of their readers include, with the
    tensor before each. image: the one input that is not weights.
    """

    graph: Graph
    plans: Mapping[str, TextPlan]
    skipped: Mapping[str, str]
    image: str

    def before_pads(self, name: str) -> str:
        """Return the tensor that a plan reads in place of `name`, an input of its node."""
        while name in self.skipped:
            name = self.skipped[name]
        return name


def network_text(graph: Graph, plans: Sequence[TextPlan]) -> NetworkText:
    """Return the graph with a plan for each of its products. plans: in the order of `layers_of(graph)`.

    Raises: MavcgError for a graph that has not exactly one image input and one output, or has a product without exactly
    one plan.
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
            raise MavcgError(f"{node_location(node)}: the second factor of the product is not a matrix of weights")
    weights = {name for node in graph.nodes for name in node.inputs[1:] if name in graph.inputs}
    images = [name for name in graph.inputs if name not in weights]
    if len(images) != 1 or len(graph.outputs) != 1:
        raise MavcgError(
            f"{graph.name}: {len(images)} inputs and {len(graph.outputs)} outputs; a network as C has one of each"
        )
    by_output = dict(zip((node.output for node in nodes), plans, strict=True))
    return NetworkText(graph, by_output, _pads(graph, by_output), images[0])


def _pads(graph: Graph, plans: Mapping[str, TextPlan]) -> dict[str, str]:
    """Return pads that only plans with the same padding read, as in NetworkText.skipped; last of a chain first."""
    skipped: dict[str, str] = {}
    for node in reversed(graph.nodes):
        if node.op != "pad":
            continue
        readers = [reader for reader in graph.nodes if node.output in reader.inputs]
        x = graph.types[node.inputs[0]].shape
        if readers and all(
            r.output in skipped or (r.output in plans and plans[r.output].info.input[2:] == x[1:3]) for r in readers
        ):
            skipped[node.output] = node.inputs[0]
    return skipped


def plan_weights(text: NetworkText, node: Node, w: Array) -> Array:
    """Return weights in the order of a plan, [out channels, in channels, rows, columns], from the graph's tensor w."""
    if node.op == "conv2d":
        return np.ascontiguousarray(w.transpose(0, 3, 1, 2))
    dims = text.plans[node.output].info.weight
    return np.ascontiguousarray((w if node.attr("transpose_b") else w.T).reshape(dims or ()))
