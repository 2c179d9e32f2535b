"""Compute the size of convolutions' constant weights: by the operator's definition, and as stored in the library."""

from dataclasses import dataclass

from mavcg.choose.lowering.lower import LoweredGraph


@dataclass(frozen=True)
class WeightSizes:
    """Sizes of convolutions' constant weights, in bytes: by the definition, and after packing or transformation."""

    definition_bytes: int
    packed_bytes: int


def weight_sizes(lowered: LoweredGraph) -> WeightSizes:
    """Return the total sizes of the constant weights of a graph's f32 convolutions."""
    graph = lowered.graph
    nodes = {node.output: node for node in lowered.nodes if node.op in ("conv2d", "primitive_conv2d")}
    nodes = {name: node for name, node in nodes.items() if node.inputs[1] in graph.constants}
    defined = sum(graph.types[node.inputs[1]].bytes for node in nodes.values())
    return WeightSizes(defined, sum(lowered.packed_bytes.get(name, 0) for name in nodes))
