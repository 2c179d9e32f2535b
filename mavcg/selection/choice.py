"""Choosing a primitive and a layout for every node of a network: the PBQP instance, and what a choice costs.

A node's vector has what its alternatives cost by themselves, an edge's matrix what it costs to bring the image from
the layout that the one writes into the layout that the other reads (CGO 2018, section 5.1).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mavcg.errors import MavcgError
from mavcg.selection.costs.provider import Cost, CostProvider
from mavcg.selection.dt_graph import LAYOUTS, NUMBER_OF, DtGraph, dt_graphs
from mavcg.selection.network import Link, Network, NetworkNode
from mavcg.selection.pbqp import Instance, PbqpEdge, make_instance
from mavcg.selection.sharing import SharedImage, cheapest_sets
from mavcg.specs.primitive import Layout, Primitive, Scenario

FREE = Cost(0.0, "none")


@dataclass(frozen=True)
class Limits:
    """Limits on primitives: the error that they may make (Primitive.error_bound), bytes of workspace."""

    max_error: float = math.inf
    workspace_bytes: int | None = None

    def admit(self, primitive: Primitive, scenario: Scenario) -> bool:
        """True if a primitive computes the scenario within these limits."""
        if primitive.error_bound > self.max_error or not primitive.applies(scenario):
            return False
        return self.workspace_bytes is None or primitive.workspace_bytes(scenario) <= self.workspace_bytes


@dataclass(frozen=True)
class Alternative:
    """An alternative for a node: a primitive with its layouts, or None and one layout for all that a dummy touches."""

    primitive: Primitive | None
    layout_in: Layout
    layout_out: Layout
    cost: Cost

    @property
    def name(self) -> str:
        """The name of the primitive, or of the layout."""
        return self.primitive.name if self.primitive else str(self.layout_in)


@dataclass(frozen=True)
class MemoryLimit:
    """Bytes that images alive at once, conversions and the workspace at work may take together (arena_need.py).

    block: channels of a block of CHWc.
    """

    bytes: int
    block: int


@dataclass(frozen=True)
class Problem:
    """A network with every node's alternatives and every image's DT graph.

    shared: an image that several nodes read is converted once for all that want it in the same layout; else every
    reader pays for itself. graphs: one for each link. memory: that a choice has to keep to, if any; not where shared.
    """

    network: Network
    alternatives: Mapping[str, tuple[Alternative, ...]]
    graphs: tuple[DtGraph, ...]
    shared: bool = False
    memory: MemoryLimit | None = None

    def layout_read(self, link: Link, chosen: Alternative) -> Layout:
        """Return the layout in which the link's reader takes the image, with this alternative."""
        return chosen.layout_out if link.residual else chosen.layout_in


def make_problem(
    network: Network,
    costs: CostProvider,
    primitives: Iterable[Primitive],
    limits: Limits = Limits(),
    shared: bool = False,
) -> Problem:
    """Look up the costs of everything that a network could be done with.

    A primitive without a cost cannot be chosen. Raises: MavcgError for a convolution that nothing is left for.
    """
    known = tuple(primitives)
    of: dict[Scenario, tuple[Alternative, ...]] = {}
    alternatives = {}
    for node in network.nodes.values():
        if node.scenario is not None and node.scenario not in of:
            of[node.scenario] = tuple(_price(node.scenario, costs, known, limits))
        alternatives[node.name] = of[node.scenario] if node.scenario is not None else _dummies(node)
        if not alternatives[node.name]:
            raise MavcgError(f"node '{node.name}': {_missing_primitive(node, known, limits)}")
    graph_of = dt_graphs(costs)
    return Problem(network, alternatives, tuple(graph_of(link.size) for link in network.links), shared)


def _price(
    scenario: Scenario, costs: CostProvider, primitives: Iterable[Primitive], limits: Limits
) -> Iterable[Alternative]:
    for primitive in primitives:
        if limits.admit(primitive, scenario):
            cost = costs.primitive(scenario, primitive)
            if cost is not None:
                yield Alternative(primitive, primitive.layout_in, primitive.layout_out, cost)


def _missing_primitive(node: NetworkNode, primitives: Iterable[Primitive], limits: Limits) -> str:
    assert node.scenario is not None
    able = [primitive for primitive in primitives if primitive.applies(node.scenario)]
    if not able:
        return f"no primitive computes {node.scenario}; leave more primitives to choose from"
    if not any(limits.admit(primitive, node.scenario) for primitive in able):
        error = min(primitive.error_bound for primitive in able)
        memory = min(primitive.workspace_bytes(node.scenario) for primitive in able)
        return (
            f"none of {len(able)} primitives keeps to the limits; the least error bound among them is {error:g}, the "
            f"least workspace {memory} bytes: allow more"
        )
    return f"there is no cost of any of {len(able)} primitives; measure them, or allow modelled costs"


def _dummies(node: NetworkNode) -> tuple[Alternative, ...]:
    return tuple(Alternative(None, layout, layout, FREE) for layout in node.layouts)


def instance_of(problem: Problem, allowed: Mapping[str, Iterable[int]] | None = None) -> Instance:
    """Return the PBQP instance: a node for each of the network's and, where conversions are shared, for each shared
    image.

    allowed: alternatives of some nodes, by number; all others of these nodes cost infinitely much.
    """
    nodes: dict[str, NDArray[np.float64]] = {}
    for name, found in problem.alternatives.items():
        nodes[name] = np.array([one.cost.ms for one in found])
        if allowed is not None and name in allowed:
            rest = np.ones(len(found), bool)
            rest[list(allowed[name])] = False
            nodes[name][rest] = np.inf
    edges: list[PbqpEdge] = []
    images = shared_images(problem)
    for image in images:
        made, links = cheapest_sets(image.graph), [problem.network.links[i] for i in image.links]
        name = image.name
        nodes[name] = np.array([one.ms for one in made])
        writes = _layouts(problem, links[0], False)
        begins = np.array([NUMBER_OF[one.begin] for one in made])
        edges.append(PbqpEdge(links[0].source, name, np.where(writes[:, None] == begins[None, :], 0.0, np.inf)))
        has = np.array([[layout in one.layouts for layout in LAYOUTS] for one in made])
        for link in links:
            edges.append(PbqpEdge(name, link.target, np.where(has[:, _layouts(problem, link, True)], 0.0, np.inf)))
    taken = {i for image in images for i in image.links}
    for i, (link, graph) in enumerate(zip(problem.network.links, problem.graphs, strict=True)):
        if i not in taken:
            from_, to = _layouts(problem, link, False), _layouts(problem, link, True)
            edges.append(PbqpEdge(link.source, link.target, graph.shortest[np.ix_(from_, to)]))
    return make_instance(nodes, edges)


def _layouts(problem: Problem, link: Link, reads: bool) -> NDArray[np.int64]:
    """Return the layout's number for every alternative of the link's reader, or of its writer."""
    if reads:
        return np.array([NUMBER_OF[problem.layout_read(link, one)] for one in problem.alternatives[link.target]])
    return np.array([NUMBER_OF[one.layout_out] for one in problem.alternatives[link.source]])


def shared_images(problem: Problem) -> tuple[SharedImage, ...]:
    """Return the images that several links carry, where their conversions are to be counted once."""
    if not problem.shared:
        return ()
    of: dict[str, list[int]] = {}
    for i, link in enumerate(problem.network.links):
        of.setdefault(link.tensor, []).append(i)
    taken = set(problem.network.nodes)
    found = []
    for tensor, links in of.items():
        if len(links) > 1:
            name = f"image {tensor}"
            while name in taken:
                name += "'"
            taken.add(name)
            found.append(SharedImage(name, tensor, tuple(links), problem.graphs[links[0]]))
    return tuple(found)


@dataclass(frozen=True)
class Converted:
    """A conversion that a choice pays for: readers: of the image in the last layout of the chain."""

    source: str
    readers: tuple[str, ...]
    tensor: str
    chain: tuple[Layout, ...]
    ms: float
    kind: str


@dataclass(frozen=True)
class Choice:
    """One alternative for each node, and all conversions that this takes. total_ms: infinite where one is missing."""

    chosen: Mapping[str, Alternative]
    conversions: tuple[Converted, ...]

    @property
    def nodes_ms(self) -> float:
        """Time of the primitives alone, in ms."""
        return math.fsum(one.cost.ms for one in self.chosen.values())

    @property
    def conversions_ms(self) -> float:
        """Time of the conversions alone, in ms."""
        return math.fsum(one.ms for one in self.conversions)

    @property
    def total_ms(self) -> float:
        """Time of the network, in ms: primitives and conversions, added up anew."""
        return math.fsum((*(o.cost.ms for o in self.chosen.values()), *(o.ms for o in self.conversions)))


def make_choice(problem: Problem, numbers: Mapping[str, int]) -> Choice:
    """Return the choice of alternatives, by node and number, with its conversions; costs are taken from the DT
    graphs, not from the instance.
    """
    chosen = {name: found[numbers[name]] for name, found in problem.alternatives.items()}
    images = shared_images(problem)
    shared = {i for image in images for i in image.links}
    converted = []
    for i, (link, graph) in enumerate(zip(problem.network.links, problem.graphs, strict=True)):
        from_, to = chosen[link.source].layout_out, problem.layout_read(link, chosen[link.target])
        if i not in shared and from_ is not to:
            chain = graph.chain(from_, to)
            kind = graph.kind(chain)
            converted.append(Converted(link.source, (link.target,), link.tensor, chain, graph.ms(from_, to), kind))
    for image in images:
        converted += _convert_once(problem, image, chosen)
    return Choice(chosen, tuple(converted))


def _convert_once(problem: Problem, image: SharedImage, chosen: Mapping[str, Alternative]) -> Iterable[Converted]:
    links = [problem.network.links[i] for i in image.links]
    begin = chosen[links[0].source].layout_out
    layouts_read = [(problem.layout_read(link, chosen[link.target]), link.target) for link in links]
    layouts = {layout for layout, _ in layouts_read}
    able = [one for one in cheapest_sets(image.graph) if one.begin is begin and one.layouts >= layouts]
    if not able:
        readers = tuple(dict.fromkeys(reader for _, reader in layouts_read))
        yield Converted(links[0].source, readers, image.tensor, (), math.inf, "")
        return
    for from_, to in min(able, key=lambda one: (one.ms, len(one.layouts))).steps:
        ms = float(image.graph.direct[NUMBER_OF[from_], NUMBER_OF[to]])
        readers = tuple(dict.fromkeys(reader for layout, reader in layouts_read if layout is to))
        yield Converted(links[0].source, readers, image.tensor, (from_, to), ms, image.graph.kind((from_, to)))
