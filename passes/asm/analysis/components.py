"""Strongly connected components of a control-flow graph: the blocks that can reach one another."""

from collections.abc import Collection, Sequence


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
