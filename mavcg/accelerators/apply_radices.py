"""Quantise a network at given radix positions, such as a program's, to get the reference for that program."""

from dataclasses import replace

from mavcg.accelerators.image.program import NodeRadix
from mavcg.accelerators.layer_search import integer_parameters
from mavcg.accelerators.shapes import check_xgraph
from mavcg.accelerators.xgraph import CONVOLUTIONS, XGraph
from mavcg.errors import MavcgError


def with_fixed_radices(graph: XGraph) -> XGraph:
    """Return an f32 network quantised at fixed radix positions: 4 for tensors, 7 for weights.

    It serves to simulate cycles, which do not depend on values.
    """
    read = {name for node in graph.nodes if node.on_accelerator for name in node.inputs}
    radices = tuple(
        NodeRadix(node.name, 4, (7,) if node.kind in CONVOLUTIONS else ())
        for node in graph.nodes
        if node.on_accelerator or node.kind == "input" or node.name in read
    )
    return with_radices(graph, radices, graph.name)


def with_radices(graph: XGraph, radices: tuple[NodeRadix, ...], name: str) -> XGraph:
    """Return an f32 network quantised at these radix positions, with int8 weights and int32 biases.

    radices: for each node. name: the program's file, for messages.
    Raises: MavcgError if the network's nodes are not those of the program.
    """
    by_name, known = graph.by_name(), {radix.node: radix for radix in radices}
    lost = [radix.node for radix in radices if radix.node not in by_name]
    lacking = [n.name for n in graph.nodes if n.name not in known and (n.on_accelerator or n.kind == "input")]
    if lost or lacking:
        difference = f"lacks node {lost[0]} of the program" if lost else f"has a node {lacking[0]} more"
        raise MavcgError(f"{name}: network {graph.name} {difference}; give the model that it was built from")
    nodes = {
        node.name: replace(
            node,
            radix=known[node.name].radix,
            weight_radix=known[node.name].weights,
            bias_steps=known[node.name].bias_steps,
        )
        for node in graph.nodes
        if node.name in known
    }
    parameters = dict(graph.parameters)
    for node in nodes.values():
        if node.name in parameters:
            if len(node.weight_radix) not in (1, node.channels):
                raise MavcgError(
                    f"{name}: {node.name} has {len(node.weight_radix)} radix positions of weights; build it again"
                )
            if len(node.bias_steps) not in (0, node.channels):
                raise MavcgError(f"{name}: {node.name} has {len(node.bias_steps)} steps of biases; build it again")
            in_radix = nodes[node.inputs[0]].radix if node.inputs[0] in nodes else None
            if in_radix is None:
                raise MavcgError(f"{name}: {node.inputs[0]} has no radix position; build the file again")
            parameters[node.name] = integer_parameters(
                parameters[node.name], node.weight_radix, in_radix, node.bias_steps
            )
    quantised = replace(graph.with_nodes(nodes), parameters=parameters)
    check_xgraph(quantised)
    return quantised
