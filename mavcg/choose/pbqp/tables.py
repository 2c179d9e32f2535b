"""Exact solution of a small or narrow problem by dynamic programming over a tree decomposition.

Nodes are eliminated one by one, like RI and RII but with any number of neighbours, as long as the tables are small.
"""

from dataclasses import dataclass

import numpy as np

from mavcg.choose.pbqp.instance import Costs
from mavcg.choose.pbqp.problem import Indices, PbqpProblem

# Axes of a table; NumPy allows at most 32 before version 2.
_MOST_AXES = 30


@dataclass(frozen=True)
class _Table:
    """A sum of costs over some nodes, ascending; each node is an axis."""

    nodes: tuple[int, ...]
    costs: Costs


def elimination_order(problem: PbqpProblem, most_entries: int) -> list[int] | None:
    """Return an elimination order whose tables have at most most_entries entries together; None if none is found.

    The next node is the one with the smallest table; ties go to the lower number.
    """
    size = {node: len(costs) for node, costs in problem.costs.items()}
    near = {node: set(row) for node, row in problem.edges.items()}
    entries = {node: _entries(node, near, size) for node in size}
    order, total = [], 0
    while near:
        node = min(near, key=lambda n: (entries[n], n))
        total += entries[node]
        if total > most_entries or len(near[node]) >= _MOST_AXES:
            return None
        order.append(node)
        others = near.pop(node)
        for neighbour in others:
            near[neighbour] = (near[neighbour] | others) - {node, neighbour}
        for neighbour in others:
            entries[neighbour] = _entries(neighbour, near, size)
    return order


def _entries(node: int, neighbours: dict[int, set[int]], size: dict[int, int]) -> int:
    entries = size[node]
    for neighbour in neighbours[node]:
        entries *= size[neighbour]
    return entries


def solve_by_tables(problem: PbqpProblem, order: list[int]) -> tuple[float, dict[int, int]]:
    """Return the least cost, and its choice by the instance's numbers. The problem is not changed."""
    tables = [_Table((node,), costs) for node, costs in problem.costs.items()]
    tables += [_Table((a, b), problem.edges[a][b]) for a in problem.edges for b in problem.edges[a] if a < b]
    constant = problem.constant
    steps: list[tuple[int, tuple[int, ...], Indices]] = []
    for node in order:
        joined = [table for table in tables if node in table.nodes]
        tables = [table for table in tables if node not in table.nodes]
        others = sorted({neighbour for table in joined for neighbour in table.nodes} - {node})
        axes = (*others, node)
        joint = np.zeros([len(problem.costs[n]) for n in axes])
        for table in joined:
            joint += _align_axes(table, axes)
        best = joint.argmin(axis=-1)
        steps.append((node, tuple(others), best))
        if others:
            tables.append(_Table(tuple(others), joint.min(axis=-1)))
        else:
            constant += float(joint.min())
    position: dict[int, int] = {}
    for node, neighbours, best in reversed(steps):
        position[node] = int(best[tuple(position[neighbour] for neighbour in neighbours)])
    return constant, {node: int(problem.labels[node][at]) for node, at in position.items()}


def _align_axes(table: _Table, axes: tuple[int, ...]) -> Costs:
    """Return a table's costs with one axis for each of `axes`, of length 1 for nodes that the table lacks."""
    order = [table.nodes.index(node) for node in axes if node in table.nodes]
    costs = table.costs.transpose(order)
    return costs.reshape([costs.shape[order.index(table.nodes.index(n))] if n in table.nodes else 1 for n in axes])
