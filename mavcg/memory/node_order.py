"""Reordering of a graph's nodes so that their buffers need the least memory at once (order_search.py).

A loop is one operator of the problem, whose nodes keep their order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.graph import Graph
from mavcg.memory.arena import Lifetime, align_size, place_buffers
from mavcg.memory.locations import Storage, lifetimes_of
from mavcg.memory.order_problem import OrderProblem, peak_of
from mavcg.memory.order_search import STEPS, least_peak_order
from mavcg.memory.storage import IN_PLACE, assign_storage

PLACED_NODES = 2_000  # node limit of the search for offsets, for each of two orders


@dataclass(frozen=True)
class NodeOrder:
    """A graph with its nodes in the order least.

    given_peak, peak: live peak in bytes, in the given order and in this one. lower_bound: peak that no order can
    undercut, with tensors in the buffers of the given order, and loops as they are.
    """

    graph: Graph
    given_peak: int
    peak: int
    lower_bound: int


def order_nodes(graph: Graph, steps: int = STEPS) -> NodeOrder:
    """Return the graph with its nodes in an order whose arena is smaller; unchanged if none is least.

    steps: as for least_peak_order. Inputs and outputs lie in the caller's memory and do not count.
    """
    storage = assign_storage(graph)
    groups = _groups(storage)
    problem = _contract(order_problem(storage), groups, storage)
    least, given = least_peak_order(problem, steps), peak_of(problem, range(len(problem.touched)))
    if least.peak >= given:
        return NodeOrder(graph, given, given, min(least.lower_bound, given))
    # Copies that the storage added are not nodes of the graph; the new order's storage adds its own.
    order = (storage.graph.nodes[number] for group in least.order for number in groups[group])
    positions = {node.output: position for position, node in enumerate(order)}
    nodes = tuple(sorted(graph.nodes, key=lambda node: positions[node.output]))
    ordered = replace(graph, nodes=nodes)
    if _arena_bytes(assign_storage(ordered)) >= _arena_bytes(storage):
        return NodeOrder(graph, given, given, min(least.lower_bound, given))
    return NodeOrder(ordered, given, peak_of(problem, least.order), least.lower_bound)


def _groups(storage: Storage) -> list[range]:
    """Return the numbers of the nodes that stay together: those of a loop that is in no other, or one node."""
    groups, number = list[range](), 0
    loops = {loop.first: loop for loop in storage.loops if loop.parent < 0}
    while number < len(storage.graph.nodes):
        end = loops[number].last + 1 if number in loops else number + 1
        groups.append(range(number, end))
        number = end
    return groups


def _contract(problem: OrderProblem, groups: Sequence[range], storage: Storage) -> OrderProblem:
    """Return the problem of groups of operators. What only one group touches is one buffer, of its live peak there."""
    if len(groups) == len(problem.touched):
        return problem
    group_of = {number: i for i, group in enumerate(groups) for number in group}
    users: dict[int, set[int]] = {}
    for number, buffers in enumerate(problem.touched):
        for buffer in buffers:
            users.setdefault(buffer, set()).add(group_of[number])
    lives = list(lifetimes_of(storage, storage.graph.nodes).items())
    numbers = {root: i for i, root in enumerate(_buffer_sizes(storage))}
    inside: dict[int, list[tuple[int, int, int]]] = {}
    for root, (first, last) in lives:
        if root in numbers and len(users[numbers[root]]) == 1 and len(groups[group_of[first]]) > 1:
            inside.setdefault(group_of[first], []).append((first, last, problem.sizes[numbers[root]]))
    sizes, touched = list(problem.sizes), list[tuple[int, ...]]()
    for i, group in enumerate(groups):
        own = {b for number in group for b in problem.touched[number] if len(group) == 1 or len(users[b]) > 1}
        if i in inside:
            own.add(len(sizes))
            sizes.append(max(sum(n for a, b, n in inside[i] if a <= at <= b) for at in group))
        touched.append(tuple(sorted(own)))
    before = tuple(
        tuple(sorted({group_of[other] for number in group for other in problem.before[number]} - {i}))
        for i, group in enumerate(groups)
    )
    return OrderProblem(tuple(sizes), tuple(touched), before)


def order_problem(storage: Storage) -> OrderProblem:
    """Return the ordering problem of a storage's nodes, in the order of its graph.

    A node whose output replaces an input must run after all other readers of that buffer's previous contents.
    """
    graph = storage.graph
    sizes = _buffer_sizes(storage)
    numbers = {root: number for number, root in enumerate(sizes)}
    writer = {name: index for index, node in enumerate(graph.nodes) for name in node.outputs if name}
    touched, before = list[tuple[int, ...]](), list[tuple[int, ...]]()
    users: dict[str, list[int]] = {}
    replaced: dict[str, int] = {}  # last node that replaced a buffer's contents
    for index, node in enumerate(graph.nodes):
        roots = dict.fromkeys(
            storage.locations[name].root for name in (*node.inputs, *node.outputs) if name in storage.locations
        )
        needed = {writer[name] for name in node.inputs if name in writer}
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
    return {root: align_size(graph.types[root].bytes) for root in roots if root not in (*graph.inputs, *graph.outputs)}


def _arena_bytes(storage: Storage) -> int:
    sizes = _buffer_sizes(storage)
    lives = lifetimes_of(storage, storage.graph.nodes)
    return place_buffers(
        [Lifetime(root, sizes[root], first, last) for root, (first, last) in lives.items() if root in sizes],
        PLACED_NODES,
    ).bytes
