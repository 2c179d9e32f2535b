"""Finds the basic blocks of a function's innermost loops in the IR text of its body."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_LABEL = re.compile(r'^("[^"]*"|[-a-zA-Z$._0-9]+):(?: |$)')
_TARGET = re.compile(r'\blabel %("[^"]*"|[-a-zA-Z$._0-9]+)')


@dataclass(frozen=True)
class IrBlock:
    """A basic block: its label ("" for an entry block without one), its lines [first, end) with the label's line."""

    label: str
    first: int
    end: int
    successors: tuple[str, ...]


def blocks_of(lines: Sequence[str]) -> tuple[IrBlock, ...]:
    """Return the basic blocks of a body as LLVM prints it: a definition's lines after the header."""
    starts = [(0, "")] + [(number, match[1]) for number, line in enumerate(lines) if (match := _LABEL.match(line))]
    if len(starts) > 1 and starts[1][0] == 0:
        del starts[0]
    ends = [first for first, _ in starts[1:]] + [len(lines)]
    return tuple(
        IrBlock(label, first, end, tuple(_TARGET.findall("\n".join(lines[first:end]))))
        for (first, label), end in zip(starts, ends, strict=True)
    )


def innermost_blocks(blocks: Sequence[IrBlock]) -> frozenset[str]:
    """Return the labels of the blocks of innermost loops.

    A loop is a strongly connected component; its headers are the blocks entered from outside. A cycle that remains
    after its headers are removed is an inner loop (Steensgaard, 1993). A loop with two entries counts as one loop.
    """
    edges = {block.label: block.successors for block in blocks}
    innermost: set[str] = set()
    pending = [set(edges)]
    while pending:
        inside = pending.pop()
        within = {label: [s for s in edges[label] if s in inside] for label in inside}
        loops = [part for part in _components(within) if len(part) > 1 or part[0] in within[part[0]]]
        for loop in loops:
            without_headers = set(loop) - _headers(loop, edges)
            inner = {label: [s for s in edges[label] if s in without_headers] for label in without_headers}
            if all(len(part) == 1 and part[0] not in inner[part[0]] for part in _components(inner)):
                innermost |= set(loop)
            else:
                pending.append(without_headers)
    return frozenset(innermost)


def _headers(loop: Sequence[str], edges: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the blocks of a loop that blocks outside it branch to."""
    members = set(loop)
    return {s for label, successors in edges.items() if label not in members for s in successors if s in members}


def _components(edges: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the strongly connected components (Tarjan, 1972), without recursion for long functions."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    components: list[list[str]] = []
    for root in edges:
        if root in order:
            continue
        order[root] = lowest[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        path = [(root, iter(edges[root]))]
        while path:
            label, successors = path[-1]
            for successor in successors:
                if successor not in order:
                    order[successor] = lowest[successor] = len(order)
                    stack.append(successor)
                    on_stack.add(successor)
                    path.append((successor, iter(edges[successor])))
                    break
                if successor in on_stack:
                    lowest[label] = min(lowest[label], order[successor])
            else:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[label])
                if lowest[label] == order[label]:
                    at = stack.index(label)
                    components.append(stack[at:])
                    on_stack -= set(stack[at:])
                    del stack[at:]
    return components
