"""A whole network by the interpreter of its plans, with the operators between them by mavcg.graph.reference."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mavcg.accelerators.plans.text.interpret import CountedTraffic, count_plan, run_plan
from mavcg.accelerators.plans.text.network_plan_text import NetworkText, plan_weights
from mavcg.graph import Array, Node
from mavcg.graph.reference.elementwise import apply_activation
from mavcg.graph.reference.evaluate import evaluate


def plan_input(text: NetworkText, node: Node, x: Array) -> Array:
    """Return the input of a node's plan, [1, channels, rows, columns], from the graph's tensor x."""
    dims = text.plans[node.output].info.input
    return x.transpose(0, 3, 1, 2) if node.op == "conv2d" else x.reshape(dims[2], dims[1]).T.reshape(dims)


def run_network(text: NetworkText, constants: Mapping[str, Array], image: Array) -> tuple[Array, CountedTraffic]:
    """Interpret a network's plans in order, and compute the operators between them by mavcg.graph.reference.

    constants: weights and biases by name, as in the graph. image: of the shape of the graph's input. Returns: the
    output, and the bytes that the plans move.
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
        output = run_plan(plan, plan_input(text, node, x), plan_weights(text, node, w)).output
        moved = _sum(moved, count_plan(plan))
        shape = graph.types[node.output].shape
        y = output.transpose(0, 2, 3, 1).reshape(shape).astype(np.float32)
        for name in node.inputs[2:]:
            y = y + values[name] if name else y
        values[node.output] = apply_activation(node, y)
    return values[graph.outputs[0]], moved


def _sum(a: CountedTraffic, b: CountedTraffic) -> CountedTraffic:
    return replace(a, **{name: getattr(a, name) + getattr(b, name) for name in CountedTraffic.__dataclass_fields__})
