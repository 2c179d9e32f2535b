"""What constant weights of convolutions take, as the definition has them and as a library does."""

from dataclasses import dataclass

from mavcg.lowering import Lowered


@dataclass(frozen=True)
class WeightSizes:
    """Bytes of convolutions' constant weights: as the definition has them, and as they are packed or transformed."""

    definition_bytes: int
    packed_bytes: int


def weight_sizes(lowered: Lowered) -> WeightSizes:
    """Of a program's f32 convolutions."""
    graph = lowered.storage.graph
    nodes = {node.output: node for node in lowered.nodes if node.op in ("conv2d", "primitive_conv2d")}
    nodes = {name: node for name, node in nodes.items() if node.inputs[1] in graph.constants}
    defined = sum(graph.types[node.inputs[1]].bytes for node in nodes.values())
    return WeightSizes(defined, sum(lowered.packed.get(name, 0) for name in nodes))
