"""A selection as a library has it: which primitives the engine computes in ways of its own, the choice in plain types.

The engine computes some primitives by itself, as conv2d nodes. What was selected is taken in the engine's own way
wherever there is one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mavcg.graph import Graph, Node
from mavcg.kernels.conv2d import is_depthwise
from mavcg.kernels.winograd_step import winograd_choices
from mavcg.passes.graph.legalise import ChosenPrimitive, LayoutChoice
from mavcg.primitive import Layout, Primitive
from mavcg.selection.choice import Choice
from mavcg.selection.network import Kind, Network, NetworkNode
from mavcg.selection.tuning import USUAL

_ENDS = f"_{Layout.HWC.lower()}_{Layout.HWC.lower()}"


def engine_way(node: Node, graph: Graph, primitive: str) -> str | None:
    """The engine's way (lowering.ways_of) to compute a conv2d as a primitive does; "": its own; None: it has none."""
    if primitive == USUAL[is_depthwise(node, graph)]:
        return ""
    way = primitive.removesuffix(_ENDS)
    return way if primitive.endswith(_ENDS) and way in winograd_choices(node, graph, 1.0) else None


def primitive_of(node: Node, graph: Graph, way: str) -> str:
    """The primitive that a conv2d of f32 is computed by in one of the engine's ways; "": its own."""
    return way + _ENDS if way else USUAL[is_depthwise(node, graph)]


def own_ways(graph: Graph, network: Network) -> dict[str, frozenset[str]]:
    """By the network's convolution: the names of those primitives that the engine computes by itself."""
    producers = graph.producers()
    found = {}
    for one in network.convolutions:
        node = producers[one.tensor]
        ways = ("", *winograd_choices(node, graph, 1.0))
        found[one.name] = frozenset(primitive_of(node, graph, way) for way in ways)
    return found


def without_computed_weights(network: Network, graph: Graph) -> Network:
    """The network with convolutions left as they are whose weights a library gets when it runs: nobody packs these."""
    producers = graph.producers()
    nodes = {
        name: NetworkNode(name, node.op, Kind.FIXED, why="has weights that are no constants", tensor=node.tensor)
        if node.scenario is not None and producers[node.tensor].inputs[1] not in graph.constants
        else node
        for name, node in network.nodes.items()
    }
    return replace(network, nodes=nodes)


@dataclass(frozen=True)
class LibraryChoice:
    """layouts: what legalise makes of the graph. ways: of conv2d nodes that stay, by their outputs, for lower_graph."""

    layouts: LayoutChoice
    ways: Mapping[str, str]


def library_choice(choice: Choice, network: Network, graph: Graph, block: int) -> LibraryChoice:
    """What a selection says, by the graph's tensors. block: channels of a block of CHWc."""
    producers = graph.producers()
    primitives, layouts, ways = {}, {}, {}
    for name, one in choice.chosen.items():
        node = network.nodes[name]
        if one.primitive is None:
            if node.tensor and one.layout_in is not Layout.HWC:
                layouts[node.tensor] = one.layout_in
            continue
        assert node.scenario is not None
        way = engine_way(producers[node.tensor], graph, one.name)
        if way is None:
            primitives[node.tensor] = _chosen(one.primitive, node.image, node.scenario.pad)
        elif way:
            ways[node.tensor] = way
    return LibraryChoice(LayoutChoice(block, primitives, layouts, chains_of(choice)), ways)


def _chosen(primitive: Primitive, image: str, pad: int) -> ChosenPrimitive:
    return ChosenPrimitive(primitive.name, primitive.layout_in, primitive.layout_out, image, pad)


def chains_of(choice: Choice) -> dict[tuple[str, Layout], tuple[Layout, ...]]:
    """(tensor, a layout that somebody wants) -> the way there, from the layout in which it is made."""
    before: dict[tuple[str, Layout], Layout] = {}
    whole: dict[tuple[str, Layout], tuple[Layout, ...]] = {}
    for one in choice.conversions:
        whole[one.tensor, one.chain[-1]] = one.chain
        before[one.tensor, one.chain[-1]] = one.chain[-2]
    found = {}
    for (tensor, wanted), chain in whole.items():
        # Of conversions that are counted once, each is a single step of a tree: its beginning may be made by another.
        while (tensor, chain[0]) in before:
            chain = (before[tensor, chain[0]], *chain)
        found[tensor, wanted] = chain
    return found
