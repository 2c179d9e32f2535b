"""A selection as a library has it: costs beside those of primitives alone, and the choice in plain types.

The engine computes some primitives by itself, as conv2d nodes: it writes an image into the middle of the border that
the next convolution wants, and into its part of a concatenation. Any other primitive copies its image into a border,
writes densely, and is copied from there. What was selected is taken in the engine's own way wherever there is one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mavcg.graph import Graph, Node
from mavcg.kernels.conv2d import is_depthwise
from mavcg.kernels.winograd_step import winograd_choices
from mavcg.passes.graph.layout_forms import is_entry
from mavcg.passes.graph.legalise import ChosenPrimitive, LayoutChoice
from mavcg.primitive import F32_BYTES, Layout, Primitive
from mavcg.selection.choice import Alternative, Choice, Problem
from mavcg.selection.costs import MODELLED, Cost
from mavcg.selection.modelled import ModelledCosts
from mavcg.selection.network import Kind, Network, NetworkNode

_ENDS = f"_{Layout.HWC.lower()}_{Layout.HWC.lower()}"
_IMPLICIT = {False: f"implicit_gemm{_ENDS}", True: f"implicit_depthwise{_ENDS}"}
# Where two are nearer to each other than this the model does not know which is faster (docs/tuning-models.md): what is
# none of the engine's own ways has to be so much faster.
DOUBT = 1.3
# Pools over columns of CHW and HCW go one by one: cycles of an element of a window.
PLANAR_POOL_CYCLES = 6.0


def engine_way(node: Node, graph: Graph, primitive: str) -> str | None:
    """The engine's way (lowering.ways_of) to compute a conv2d as a primitive does; "": its own; None: it has none."""
    if primitive == _IMPLICIT[is_depthwise(node, graph)]:
        return ""
    way = primitive.removesuffix(_ENDS)
    return way if primitive.endswith(_ENDS) and way in winograd_choices(node, graph, 1.0) else None


def primitive_of(node: Node, graph: Graph, way: str) -> str:
    """The primitive that a conv2d of f32 is computed by in one of the engine's ways; "": its own."""
    return way + _ENDS if way else _IMPLICIT[is_depthwise(node, graph)]


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


def in_library(problem: Problem, graph: Graph, model: ModelledCosts) -> Problem:
    """The problem with costs as in a library: of borders, parts of concatenations, pools, and with doubts of models."""
    own, joined = own_ways(graph, problem.network), _joined(graph)
    alternatives = {}
    for name, found in problem.alternatives.items():
        node = problem.network.nodes[name]
        if node.scenario is None:
            alternatives[name] = tuple(_as_dummy(one, node, graph, model) for one in found)
            continue
        s = node.scenario
        border = (s.c * (s.h + 2 * s.pad) * (s.w + 2 * s.pad)) if s.pad and node.image not in graph.inputs else 0
        copied = s.m * s.out_h * s.out_w if node.tensor in joined else 0
        alternatives[name] = tuple(
            _as_own(one, _copy_ms(model, border)) if one.name in own[name] else _as_other(one, _copy_ms(model, copied))
            for one in found
        )
    return replace(problem, alternatives=alternatives)


def _copy_ms(model: ModelledCosts, elements: int) -> float:
    if not elements:
        return 0.0
    return model.ns({"copy": elements, "bytes": model.bytes_ns(2 * elements * F32_BYTES)}) / 1e6


def _with_ms(one: Alternative, ms: float) -> Alternative:
    return replace(one, cost=replace(one.cost, ms=ms))


def _as_own(one: Alternative, border_ms: float) -> Alternative:
    """What a primitive's own border takes is saved; most of it, where costs and copies are of different sources."""
    if not border_ms or one.name.startswith("winograd"):  # which pads as it reads
        return one
    return _with_ms(one, max(one.cost.ms - border_ms, 0.5 * one.cost.ms))


def _as_other(one: Alternative, copied_ms: float) -> Alternative:
    doubt = DOUBT if one.cost.kind == MODELLED else 1.0
    dense = one.layout_out in (Layout.HWC, Layout.HCW)  # in CHW and CHWc channels of a part are one run of memory
    return _with_ms(one, doubt * one.cost.ms + copied_ms * dense)


def _joined(graph: Graph) -> frozenset[str]:
    """Tensors that are joined to others along the channels."""
    joins = (node for node in graph.nodes if node.op == "concat" and node.attr("axis") == 3 and len(node.inputs) > 1)
    return frozenset(name for node in joins for name in node.inputs)


def _as_dummy(one: Alternative, node: NetworkNode, graph: Graph, model: ModelledCosts) -> Alternative:
    if node.tensor and one.layout_in is Layout.HWC and is_entry(graph.producers()[node.tensor], graph):
        _, h, w, c = graph.shape(node.tensor)
        return replace(one, cost=model.conversion(Layout.CHW, Layout.HWC, c, h, w) or one.cost)
    if not node.op.endswith("pool2d") or one.layout_in not in (Layout.CHW, Layout.HCW):
        return one
    made = graph.types[node.tensor].elements
    taps = graph.producers()[node.tensor].attr("kernel")[1]
    return replace(one, cost=Cost(made * taps * PLANAR_POOL_CYCLES * model.cycle_ns / 1e6, MODELLED))


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
