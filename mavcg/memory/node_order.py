"""Puts the nodes of a graph in the order whose buffers need the least memory at once (order_search.py)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mavcg.graph import Graph
from mavcg.memory.arena import Lifetime, align_size, place_buffers
from mavcg.memory.order_search import STATES, LeastPeakOrder, OrderProblem, least_peak_order, peak_of
from mavcg.memory.storage import IN_PLACE, Storage, assign_storage, lifetimes_of

PLACED_NODES = 2_000  # of the search for offsets, for each of two orders


@dataclass(frozen=True)
class NodeOrder:
    """graph: with its nodes in the order that was found. peak, given_peak: bytes of buffers in use at once, in this
    order and in the given one. lower_bound: no order is below it, with tensors in the buffers of the given order."""

    graph: Graph
    given_peak: int
    peak: int
    lower_bound: int


def order_nodes(graph: Graph, states: int = STATES) -> NodeOrder:
    """Return the graph with its nodes in an order whose arena is smaller, or as it is where none is found.

    states: as of least_peak_order. Inputs and outputs lie in the caller's memory and do not count.
    """
    storage = assign_storage(graph)
    found, given, problem = _search_order(storage, states)
    if found.peak >= given:
        return NodeOrder(graph, given, given, min(found.lower_bound, given))
    # Nodes of the storage's graph that copy for it are not the graph's: it will need them again, or not.
    names = {node.output: place for place, node in enumerate(storage.graph.nodes[number] for number in found.order)}
    nodes = tuple(sorted(graph.nodes, key=lambda node: names[node.output]))
    ordered = replace(graph, nodes=nodes)
    if _arena_bytes(assign_storage(ordered)) >= _arena_bytes(storage):
        return NodeOrder(graph, given, given, min(found.lower_bound, given))
    return NodeOrder(ordered, given, peak_of(problem, found.order), found.lower_bound)


def _search_order(storage: Storage, states: int) -> tuple[LeastPeakOrder, int, OrderProblem]:
    problem = order_problem(storage)
    return least_peak_order(problem, states), peak_of(problem, range(len(problem.touched))), problem


def order_problem(storage: Storage) -> OrderProblem:
    """Return the problem of a storage's nodes, in the order of its graph.

    A node whose output replaces an input runs after all others that read the buffer before it.
    """
    graph = storage.graph
    sizes = _buffer_sizes(storage)
    numbers = {root: number for number, root in enumerate(sizes)}
    made = {name: index for index, node in enumerate(graph.nodes) for name in node.outputs if name}
    touched, before = list[tuple[int, ...]](), list[tuple[int, ...]]()
    users: dict[str, list[int]] = {}
    replaced: dict[str, int] = {}  # the last node that replaced what a buffer held
    for index, node in enumerate(graph.nodes):
        roots = dict.fromkeys(
            storage.locations[name].root for name in (*node.inputs, *node.outputs) if name in storage.locations
        )
        needed = {made[name] for name in node.inputs if name in made}
        needed |= {replaced[root] for root in roots if root in replaced}
        out = storage.locations.get(node.output)
        if node.op in IN_PLACE and out is not None and out.root in users:
            needed |= set(users[out.root])
            replaced[out.root] = index
        for root in roots:
            users.setdefault(root, []).append(index)
        touched.append(tuple(numbers[root] for root in roots if root in numbers))
        before.append(tuple(sorted(needed - {index})))
    return OrderProblem(tuple(sizes.values()), tuple(touched), tuple(before))


def _buffer_sizes(storage: Storage) -> Mapping[str, int]:
    graph = storage.graph
    roots = dict.fromkeys(location.root for location in storage.locations.values())
    return {
        root: align_size(graph.types[root].bytes) for root in roots if root not in (*graph.inputs, *graph.outputs)
    }  # fmt: skip


def _arena_bytes(storage: Storage) -> int:
    sizes = _buffer_sizes(storage)
    lives = lifetimes_of(storage, storage.graph.nodes)
    return place_buffers(
        [Lifetime(root, sizes[root], first, last) for root, (first, last) in lives.items() if root in sizes],
        PLACED_NODES,
    ).bytes
