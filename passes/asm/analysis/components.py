"""Strongly connected components of a control-flow graph, the blocks that can reach one another, and its cycles."""

from collections.abc import Collection, Iterator, Sequence
from heapq import heapify, heappop, heappush


def strongly_connected(successors: Sequence[Sequence[int]], among: Collection[int]) -> list[frozenset[int]]:
    """Return the strongly connected components of the part of a graph that `among` names, in no particular order.

    successors: of each node, by its number. networkx has the same, and takes longer to import than `mavcg launch` to
    compile a small file. Source: Tarjan, "Depth-first search and linear graph algorithms" (1972), without recursion.
    """
    inside = frozenset(among)
    number: dict[int, int] = {}  # order of first visits
    lowest: dict[int, int] = {}  # first visited node of the stack that a node is known to reach
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[frozenset[int]] = []
    for root in sorted(inside):
        if root in number:
            continue
        path = [(root, iter(successors[root]))]
        while path:
            node, following = path[-1]
            if node not in number:
                number[node] = lowest[node] = len(number)
                stack.append(node)
                on_stack.add(node)
            next_node = next((n for n in following if n in inside and n not in number), None)
            if next_node is not None:
                path.append((next_node, iter(successors[next_node])))
                continue
            path.pop()
            lowest[node] = min([lowest[node], *(lowest[n] for n in successors[node] if n in on_stack)])
            if lowest[node] == number[node]:
                component = set(stack[stack.index(node) :])
                del stack[-len(component) :]
                on_stack -= component
                found.append(frozenset(component))
    return found


def simple_cycles(successors: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the cycles of two or more nodes in which no node occurs twice, each from its lowest node on.

    Cycles with a lower first node come first, in the order in which a depth-first search from it closes them.
    successors: of each node, by its number. Source: Johnson, "Finding all the elementary circuits of a directed graph"
    (1975), without recursion: between two cycles it takes time proportional to the nodes and edges.
    """
    todo = [(min(component), component) for component in _with_cycles(successors, range(len(successors)))]
    heapify(todo)
    while todo:
        first, inside = heappop(todo)
        yield from _cycles_from(first, inside, successors)
        for component in _with_cycles(successors, inside - {first}):
            heappush(todo, (min(component), component))


def _with_cycles(successors: Sequence[Sequence[int]], among: Collection[int]) -> list[frozenset[int]]:
    return [component for component in strongly_connected(successors, among) if len(component) > 1]


def _cycles_from(first: int, inside: frozenset[int], successors: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the cycles through a node of a component."""
    following = {node: [n for n in dict.fromkeys(successors[node]) if n in inside and n != node] for node in inside}
    path, closes = [first], [False]  # closes: for each node of the path, whether a cycle through it was found
    open_edges = [iter(following[first])]
    blocked = {first}
    waiting: dict[int, set[int]] = {node: set() for node in following}  # unblocked together with the node
    while path:
        node = next((n for n in open_edges[-1] if n == first or n not in blocked), None)
        if node == first:
            yield path[:]
            closes[-1] = True
        elif node is not None:
            path.append(node)
            closes.append(False)
            open_edges.append(iter(following[node]))
            blocked.add(node)
        else:
            done, closed = path.pop(), closes.pop()
            open_edges.pop()
            if not closed:
                for other in following[done]:
                    waiting[other].add(done)
                continue
            if closes:
                closes[-1] = True
            free = [done]
            while free:
                unblocked = free.pop()
                if unblocked in blocked:
                    blocked.remove(unblocked)
                    free += waiting[unblocked]
                    waiting[unblocked].clear()
