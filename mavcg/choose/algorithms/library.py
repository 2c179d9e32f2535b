"""Converts a selection into the input of a library: algorithms of conv2d nodes, primitives and layouts of the others.

The engine computes some primitives itself, as conv2d nodes. A selected primitive is computed by the engine's own
algorithm wherever there is one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mavcg.choose.algorithms.choice import Choice
from mavcg.choose.algorithms.network import Kind, Network, NetworkNode
from mavcg.graph import Graph, Node
from mavcg.kernels.conv.conv2d import is_depthwise
from mavcg.kernels.int8.im2row import IM2ROW, eight_bit_primitive, im2row_choices
from mavcg.kernels.primitives.eight_bit import DEFAULTS
from mavcg.kernels.primitives.winograd.node_step import winograd_choices
from mavcg.passes.graph.legalise import ChosenPrimitive, LayoutChoice
from mavcg.specs.primitive import Layout, Primitive

# The primitives that the engine takes where nothing is selected; they are always measured.
USUAL = {False: "implicit_gemm_hwc_hwc", True: "implicit_depthwise_hwc_hwc"}  # in f32, by whether they are depthwise
USUAL_NAMES = frozenset((*USUAL.values(), *DEFAULTS))  # and of 8 bits

_ENDS = f"_{Layout.HWC.lower()}_{Layout.HWC.lower()}"


def engine_algorithm(node: Node, graph: Graph, primitive: str) -> str | None:
    """Return the engine's algorithm (lowering.other_algorithms) that equals a primitive of a conv2d or qconv2d.

    "" is the default algorithm of the node's family; None means that the engine has none.
    """
    if node.op == "qconv2d":
        return next(name for name in ("", IM2ROW) if eight_bit_primitive(node, graph, name) == primitive)
    if primitive == USUAL[is_depthwise(node, graph)]:
        return ""
    algorithm = primitive.removesuffix(_ENDS)
    known = primitive.endswith(_ENDS) and algorithm in winograd_choices(node, graph, 1.0)
    return algorithm if known else None


def primitive_of(node: Node, graph: Graph, algorithm: str) -> str:
    """Return the primitive that equals one of the engine's algorithms for a conv2d or qconv2d.

    "": the default algorithm.
    """
    if node.op == "qconv2d":
        return eight_bit_primitive(node, graph, algorithm)
    return algorithm + _ENDS if algorithm else USUAL[is_depthwise(node, graph)]


def engine_primitives(graph: Graph, network: Network) -> dict[str, frozenset[str]]:
    """Return for each convolution of the network the names of the primitives that the engine computes itself."""
    producers = graph.producers()
    primitives = {}
    for convolution in network.convolutions:
        node = producers[convolution.tensor]
        algorithms = ("", *winograd_choices(node, graph, 1.0), *im2row_choices(node, graph))
        primitives[convolution.name] = frozenset(primitive_of(node, graph, algorithm) for algorithm in algorithms)
    return primitives


def without_computed_weights(network: Network, graph: Graph) -> Network:
    """Return the network with convolutions fixed whose weights are computed at run time and so cannot be packed."""
    producers = graph.producers()
    nodes = {
        name: NetworkNode(name, node.op, Kind.FIXED, why="has weights that are not constants", tensor=node.tensor)
        if node.scenario is not None and producers[node.tensor].inputs[1] not in graph.constants
        else node
        for name, node in network.nodes.items()
    }
    return replace(network, nodes=nodes)


@dataclass(frozen=True)
class LibraryChoice:
    """A selection in terms of the graph's tensors.

    layouts: primitives and layouts that legalise writes into the graph. algorithms: of the remaining conv2d nodes, by
    output tensor, for lower_graph.
    """

    layouts: LayoutChoice
    algorithms: Mapping[str, str]


def library_choice(choice: Choice, network: Network, graph: Graph, block: int) -> LibraryChoice:
    """Return a selection in terms of the graph's tensors. block: channels per block of CHWc."""
    producers = graph.producers()
    primitives, layouts, algorithms = {}, {}, {}
    for name, alternative in choice.chosen.items():
        node = network.nodes[name]
        if alternative.primitive is None:
            if node.tensor and alternative.layout_in is not Layout.HWC:
                layouts[node.tensor] = alternative.layout_in
            continue
        assert node.scenario is not None
        algorithm = engine_algorithm(producers[node.tensor], graph, alternative.name)
        if algorithm is None:
            primitives[node.tensor] = _chosen_primitive(alternative.primitive, node.image, node.scenario.pads)
        elif algorithm:
            algorithms[node.tensor] = algorithm
    return LibraryChoice(LayoutChoice(block, primitives, layouts, chains_of(choice)), algorithms)


def _chosen_primitive(primitive: Primitive, image: str, pads: tuple[int, int]) -> ChosenPrimitive:
    return ChosenPrimitive(primitive.name, primitive.layout_in, primitive.layout_out, image, pads)


def chains_of(choice: Choice) -> dict[tuple[str, Layout], tuple[Layout, ...]]:
    """Return the chain of conversions to each (tensor, layout that a node reads), from the layout that is written."""
    previous: dict[tuple[str, Layout], Layout] = {}
    chains: dict[tuple[str, Layout], tuple[Layout, ...]] = {}
    for conversion in choice.conversions:
        chains[conversion.tensor, conversion.chain[-1]] = conversion.chain
        previous[conversion.tensor, conversion.chain[-1]] = conversion.chain[-2]
    complete = {}
    for (tensor, layout), chain in chains.items():
        # A shared conversion is one edge of a tree: another one may make the layout that it starts from.
        while (tensor, chain[0]) in previous:
            chain = (previous[tensor, chain[0]], *chain)
        complete[tensor, layout] = chain
    return complete
