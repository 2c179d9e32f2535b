"""A network's selection as a PBQP instance, and the cost of a choice.

A node's vector has the costs of its alternatives, an edge's matrix the cost of converting the image from the layout
that the writer's alternative writes into the layout that the reader's reads (CGO 2018, section 5.1).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mavcg.choose.algorithms.costs.provider import Cost, CostProvider
from mavcg.choose.algorithms.dt_graph import LAYOUTS, NUMBER_OF, DtGraph, dt_graphs
from mavcg.choose.algorithms.network import Link, Network, NetworkNode
from mavcg.choose.algorithms.sharing import SharedImage, cheapest_sets
from mavcg.choose.pbqp import Instance, PbqpEdge, make_instance
from mavcg.errors import MavcgError
from mavcg.specs.primitive import Layout, Primitive, Scenario

FREE = Cost(0.0, "none")


@dataclass(frozen=True)
class Limits:
    """Limits on primitives: largest error bound (Primitive.error_bound), and largest workspace in bytes."""

    max_error: float = math.inf
    workspace_bytes: int | None = None

    def admit(self, primitive: Primitive, scenario: Scenario) -> bool:
        """True if a primitive computes the scenario within these limits."""
        if primitive.error_bound > self.max_error or not primitive.applies(scenario):
            return False
        return self.workspace_bytes is None or primitive.workspace_bytes(scenario) <= self.workspace_bytes


@dataclass(frozen=True)
class Alternative:
    """An alternative of a node.

    A primitive with its layouts, or for a dummy node None and one layout for all its images.
    """

    primitive: Primitive | None
    layout_in: Layout
    layout_out: Layout
    cost: Cost

    @property
    def name(self) -> str:
        """Name of the primitive, or of the layout."""
        return self.primitive.name if self.primitive else str(self.layout_in)


@dataclass(frozen=True)
class MemoryLimit:
    """Limit of the bytes that live images, conversions and the running node's workspace take together (arena_need.py).

    block: channels per block of CHWc.
    """

    bytes: int
    block: int


@dataclass(frozen=True)
class Problem:
    """A network with the alternatives of every node and the DT graph of every link.

    shared: an image that several nodes read is converted once for all that read the same layout; else each reader pays
    for its own conversion. graphs: one for each link. memory: limit that a choice must keep to, if any; None if shared.
    """

    network: Network
    alternatives: Mapping[str, tuple[Alternative, ...]]
    graphs: tuple[DtGraph, ...]
    shared: bool = False
    memory: MemoryLimit | None = None

    def layout_read(self, link: Link, chosen: Alternative) -> Layout:
        """Return the layout in which the link's reader reads the image, with its chosen alternative."""
        return chosen.layout_out if link.residual else chosen.layout_in


def make_problem(
    network: Network,
    costs: CostProvider,
    primitives: Iterable[Primitive],
    limits: Limits = Limits(),
    shared: bool = False,
) -> Problem:
    """Return the selection problem of a network, with the costs of all alternatives within the limits.

    A primitive without a cost cannot be chosen. Raises: MavcgError for a convolution without any alternative.
    """
    candidates = tuple(primitives)
    by_scenario: dict[Scenario, tuple[Alternative, ...]] = {}
    alternatives = {}
    for node in network.nodes.values():
        if node.scenario is not None and node.scenario not in by_scenario:
            by_scenario[node.scenario] = tuple(_price(node.scenario, costs, candidates, limits))
        alternatives[node.name] = by_scenario[node.scenario] if node.scenario is not None else _dummies(node)
        if not alternatives[node.name]:
            raise MavcgError(f"node '{node.name}': {_missing_primitive(node, candidates, limits)}")
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
        return f"no primitive computes {node.scenario}; allow more primitives"
    if not any(limits.admit(primitive, node.scenario) for primitive in able):
        error = min(primitive.error_bound for primitive in able)
        memory = min(primitive.workspace_bytes(node.scenario) for primitive in able)
        return (
            f"none of {len(able)} primitives is within the limits; their least error bound is {error:g}, their "
            f"least workspace {memory} bytes: raise the limits"
        )
    return f"none of {len(able)} primitives has a cost; measure them, or allow modelled costs"


def _dummies(node: NetworkNode) -> tuple[Alternative, ...]:
    return tuple(Alternative(None, layout, layout, FREE) for layout in node.layouts)


def instance_of(problem: Problem, allowed: Mapping[str, Iterable[int]] | None = None) -> Instance:
    """Return the PBQP instance: a node for each network node, and for each image whose conversions are shared.

    allowed: numbers of the allowed alternatives of some nodes; all other alternatives of these nodes cost infinity.
    """
    nodes: dict[str, NDArray[np.float64]] = {}
    for name, alternatives in problem.alternatives.items():
        nodes[name] = np.array([alternative.cost.ms for alternative in alternatives])
        if allowed is not None and name in allowed:
            forbidden = np.ones(len(alternatives), bool)
            forbidden[list(allowed[name])] = False
            nodes[name][forbidden] = np.inf
    edges: list[PbqpEdge] = []
    images = shared_images(problem)
    for image in images:
        layout_sets, links = cheapest_sets(image.graph), [problem.network.links[i] for i in image.links]
        name = image.name
        nodes[name] = np.array([layout_set.ms for layout_set in layout_sets])
        writes = _layouts(problem, links[0], False)
        begins = np.array([NUMBER_OF[layout_set.begin] for layout_set in layout_sets])
        edges.append(PbqpEdge(links[0].source, name, np.where(writes[:, None] == begins[None, :], 0.0, np.inf)))
        has = np.array([[layout in layout_set.layouts for layout in LAYOUTS] for layout_set in layout_sets])
        for link in links:
            edges.append(PbqpEdge(name, link.target, np.where(has[:, _layouts(problem, link, True)], 0.0, np.inf)))
    shared = {i for image in images for i in image.links}
    for i, (link, graph) in enumerate(zip(problem.network.links, problem.graphs, strict=True)):
        if i not in shared:
            from_, to = _layouts(problem, link, False), _layouts(problem, link, True)
            edges.append(PbqpEdge(link.source, link.target, graph.shortest[np.ix_(from_, to)]))
    return make_instance(nodes, edges)


def _layouts(problem: Problem, link: Link, reads: bool) -> NDArray[np.int64]:
    """Return the number of the layout of each alternative of the link's reader (reads) or writer."""
    if reads:
        readers = problem.alternatives[link.target]
        return np.array([NUMBER_OF[problem.layout_read(link, alternative)] for alternative in readers])
    return np.array([NUMBER_OF[alternative.layout_out] for alternative in problem.alternatives[link.source]])


def shared_images(problem: Problem) -> tuple[SharedImage, ...]:
    """Return the images that several links carry, if conversions are counted once for all readers."""
    if not problem.shared:
        return ()
    by_tensor: dict[str, list[int]] = {}
    for i, link in enumerate(problem.network.links):
        by_tensor.setdefault(link.tensor, []).append(i)
    names = set(problem.network.nodes)
    images = []
    for tensor, links in by_tensor.items():
        if len(links) > 1:
            name = f"image {tensor}"
            while name in names:
                name += "'"
            names.add(name)
            images.append(SharedImage(name, tensor, tuple(links), problem.graphs[links[0]]))
    return tuple(images)


@dataclass(frozen=True)
class Converted:
    """A conversion that a choice pays for.

    source: node that writes the image. readers: nodes that read it in the last layout of the chain. kind: of its cost.
    """

    source: str
    readers: tuple[str, ...]
    tensor: str
    chain: tuple[Layout, ...]
    ms: float
    kind: str


@dataclass(frozen=True)
class Choice:
    """One alternative for each node, and the conversions that follow.

    total_ms is infinite if a conversion is missing.
    """

    chosen: Mapping[str, Alternative]
    conversions: tuple[Converted, ...]

    @property
    def nodes_ms(self) -> float:
        """Time of the primitives alone, in ms."""
        return math.fsum(alternative.cost.ms for alternative in self.chosen.values())

    @property
    def conversions_ms(self) -> float:
        """Time of the conversions alone, in ms."""
        return math.fsum(conversion.ms for conversion in self.conversions)

    @property
    def total_ms(self) -> float:
        """Time of the network, primitives and conversions, in ms; summed from the costs, not taken from a solver."""
        return math.fsum((*(o.cost.ms for o in self.chosen.values()), *(o.ms for o in self.conversions)))


def make_choice(problem: Problem, numbers: Mapping[str, int]) -> Choice:
    """Return the choice of these alternatives, numbers by node, with its conversions.

    Costs are taken from the DT graphs, not from the instance.
    """
    chosen = {name: alternatives[numbers[name]] for name, alternatives in problem.alternatives.items()}
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
    able = [made for made in cheapest_sets(image.graph) if made.begin is begin and made.layouts >= layouts]
    if not able:
        readers = tuple(dict.fromkeys(reader for _, reader in layouts_read))
        yield Converted(links[0].source, readers, image.tensor, (), math.inf, "")
        return
    for from_, to in min(able, key=lambda made: (made.ms, len(made.layouts))).steps:
        ms = float(image.graph.direct[NUMBER_OF[from_], NUMBER_OF[to]])
        readers = tuple(dict.fromkeys(reader for layout, reader in layouts_read if layout is to))
        yield Converted(links[0].source, readers, image.tensor, (from_, to), ms, image.graph.kind((from_, to)))
