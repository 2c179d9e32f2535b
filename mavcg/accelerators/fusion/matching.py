"""Find all embeddings of a small pattern in a graph (DNNVM, algorithm 1).

An embedding maps the pattern's vertices to different nodes so that every edge of the pattern is an edge between their
images (a monomorphism). Embeddings on the same set of nodes count once.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from mavcg.errors import MavcgError

VertexPredicate = Callable[[str, str], bool]
EdgePredicate = Callable[[str, str], bool]


@dataclass(frozen=True)
class LabelledGraph:
    """A directed graph. nodes: label of each node, by name, in order. edges: label of each edge; "" for no label."""

    nodes: Mapping[str, str]
    edges: Mapping[tuple[str, str], str]

    @cached_property
    def after(self) -> dict[str, set[str]]:
        """Return the ends of each node's outgoing edges."""
        ends: dict[str, set[str]] = {name: set() for name in self.nodes}
        for a, b in self.edges:
            ends[a].add(b)
        return ends

    @cached_property
    def before(self) -> dict[str, set[str]]:
        """Return the starts of each node's incoming edges."""
        starts: dict[str, set[str]] = {name: set() for name in self.nodes}
        for a, b in self.edges:
            starts[b].add(a)
        return starts


def same_label(pattern_label: str, label: str) -> bool:
    """Return True for equal labels."""
    return pattern_label == label


def label_or_any(pattern_label: str, label: str) -> bool:
    """Return True for equal labels, and if the pattern's edge has no label."""
    return pattern_label in ("", label)


@dataclass(frozen=True)
class _Step:
    """The next vertex of the pattern to map.

    after, before: its mapped neighbours, by edges from and to it. twin: an exchangeable vertex, whose image must come
    before its own; "" for none.
    """

    vertex: str
    after: tuple[str, ...]  # matched vertices with an edge to it
    before: tuple[str, ...]  # matched vertices that it has an edge to
    twin: str


def embeddings(
    pattern: LabelledGraph,
    graph: LabelledGraph,
    vertex_matches: VertexPredicate = same_label,
    edge_matches: EdgePredicate = label_or_any,
    candidates: Mapping[str, Sequence[str]] | None = None,
    most_steps: int | None = None,
) -> Iterator[tuple[str, ...]]:
    """Yield each embedding, once for a set of nodes, as the images of the pattern's vertices in their order.

    Args:
        vertex_matches, edge_matches: called with the pattern's label and the graph's label.
        candidates: nodes that a vertex may be mapped to, if the labels allow; vertices without an entry are free.
        most_steps: largest number of search steps, each of which maps a vertex or gives it up; None for no limit. The
            number of embeddings can grow exponentially with the pattern's size.
    Raises: MavcgError after most_steps.
    """
    filtered = _filter_candidates(pattern, graph, vertex_matches, candidates)
    if not pattern.nodes or not all(filtered.values()):
        return
    rank = {name: at for at, name in enumerate(graph.nodes)}
    order = _order(pattern, filtered)
    seen: set[frozenset[str]] = set()
    for images in _search(order, pattern, graph, filtered, rank, edge_matches, most_steps):
        nodes = frozenset(images.values())
        if nodes not in seen:
            seen.add(nodes)
            yield tuple(images[vertex] for vertex in pattern.nodes)


def _filter_candidates(
    pattern: LabelledGraph,
    graph: LabelledGraph,
    matches: VertexPredicate,
    allowed_nodes: Mapping[str, Sequence[str]] | None,
) -> dict[str, set[str]]:
    """Return the candidates of each vertex: nodes with a matching label and at least as many edges in and out."""
    by_label: dict[str, list[str]] = {}
    for name, label in graph.nodes.items():
        by_label.setdefault(label, []).append(name)
    filtered = {}
    for vertex, pattern_label in pattern.nodes.items():
        ins, outs = len(pattern.before[vertex]), len(pattern.after[vertex])
        allowed = None if allowed_nodes is None or vertex not in allowed_nodes else set(allowed_nodes[vertex])
        filtered[vertex] = {
            name
            for label, names in by_label.items()
            if matches(pattern_label, label)
            for name in names
            if len(graph.before[name]) >= ins
            and len(graph.after[name]) >= outs
            and (allowed is None or name in allowed)
        }
    return filtered


def _order(pattern: LabelledGraph, filtered: Mapping[str, set[str]]) -> tuple[_Step, ...]:
    """Return the vertices in breadth-first order, from the vertex with the fewest candidates of each component."""
    steps: list[_Step] = []
    placed: set[str] = set()
    rank = {vertex: at for at, vertex in enumerate(pattern.nodes)}
    last_of_twins: dict[object, str] = {}
    while len(placed) < len(pattern.nodes):
        start = min((v for v in pattern.nodes if v not in placed), key=lambda v: len(filtered[v]))
        queue, queued = deque([start]), {start}
        while queue:
            vertex = queue.popleft()
            ins, outs = pattern.before[vertex], pattern.after[vertex]
            steps.append(
                _Step(
                    vertex,
                    tuple(v for v in pattern.nodes if v in ins and v in placed),
                    tuple(v for v in pattern.nodes if v in outs and v in placed),
                    last_of_twins.get(_twin_key(pattern, filtered, vertex), ""),
                )
            )
            last_of_twins[_twin_key(pattern, filtered, vertex)] = vertex
            placed.add(vertex)
            for neighbour in sorted((ins | outs) - placed - queued, key=lambda v: (len(filtered[v]), rank[v])):
                queue.append(neighbour)
                queued.add(neighbour)
    return tuple(steps)


def _twin_key(pattern: LabelledGraph, filtered: Mapping[str, set[str]], vertex: str) -> object:
    """Return a key that is equal for exchangeable vertices; only one order of their images is enumerated."""
    into = frozenset((v, pattern.edges[v, vertex]) for v in pattern.before[vertex])
    out_of = frozenset((v, pattern.edges[vertex, v]) for v in pattern.after[vertex])
    return pattern.nodes[vertex], into, out_of, frozenset(filtered[vertex])


def _search(
    order: Sequence[_Step],
    pattern: LabelledGraph,
    graph: LabelledGraph,
    filtered: Mapping[str, set[str]],
    rank: Mapping[str, int],
    edge_matches: EdgePredicate,
    most_steps: int | None,
) -> Iterator[dict[str, str]]:
    """Extend a partial mapping vertex by vertex, without recursion."""
    images: dict[str, str] = {}
    used: set[str] = set()
    pending = [iter(_refine(order[0], images, used, pattern, graph, filtered, rank, edge_matches))]
    steps = 0
    while pending:
        steps += 1
        if most_steps is not None and steps > most_steps:
            raise MavcgError(f"more than {most_steps} steps of the search; give a template with more edges or types")
        step = order[len(pending) - 1]
        if step.vertex in images:
            used.discard(images.pop(step.vertex))
        image = next(pending[-1], None)
        if image is None:
            pending.pop()
            continue
        images[step.vertex] = image
        used.add(image)
        if len(pending) == len(order):
            yield images
            continue
        pending.append(iter(_refine(order[len(pending)], images, used, pattern, graph, filtered, rank, edge_matches)))


def _refine(
    step: _Step,
    images: Mapping[str, str],
    used: set[str],
    pattern: LabelledGraph,
    graph: LabelledGraph,
    filtered: Mapping[str, set[str]],
    rank: Mapping[str, int],
    edge_matches: EdgePredicate,
) -> list[str]:
    """Return the candidates of a vertex that have all required edges to the images of its matched neighbours."""
    allowed = filtered[step.vertex]
    for start in step.after:
        allowed = allowed & graph.after[images[start]]
    for end in step.before:
        allowed = allowed & graph.before[images[end]]
    least = rank[images[step.twin]] if step.twin else -1
    return [
        node
        for node in sorted(allowed - used, key=rank.__getitem__)
        if rank[node] > least
        and all(edge_matches(pattern.edges[v, step.vertex], graph.edges[images[v], node]) for v in step.after)
        and all(edge_matches(pattern.edges[step.vertex, v], graph.edges[node, images[v]]) for v in step.before)
        and _loop_matches(step.vertex, node, pattern, graph, edge_matches)
    ]


def _loop_matches(
    vertex: str, node: str, pattern: LabelledGraph, graph: LabelledGraph, edge_matches: EdgePredicate
) -> bool:
    """Return True if a vertex has no edge to itself, or its image has a matching edge to itself."""
    loop = pattern.edges.get((vertex, vertex))
    if loop is None:
        return True
    own = graph.edges.get((node, node))
    return own is not None and edge_matches(loop, own)
