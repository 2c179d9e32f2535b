"""Partitioned Boolean quadratic programming: one alternative for every node, so that all costs together are least.

Each alternative of a node has a cost, and so has each pair of alternatives of two joined nodes. `solve` finds the
optimum and says so, or what it found in the time and how far from the optimum that can be.
"""

from mavcg.selection.pbqp.instance import Instance, PbqpEdge, make_instance, total_cost
from mavcg.selection.pbqp.solver import Infeasible, Solution, solve
from mavcg.selection.pbqp.text import parse_instance, print_instance, read_instance, solution_json

__all__ = [
    "PbqpEdge",
    "Infeasible",
    "Instance",
    "Solution",
    "make_instance",
    "parse_instance",
    "print_instance",
    "read_instance",
    "solution_json",
    "solve",
    "total_cost",
]
