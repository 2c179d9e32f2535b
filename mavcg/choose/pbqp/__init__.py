"""Solver of partitioned boolean quadratic problems (PBQP): choose one alternative per node at the least total cost.

Each alternative of a node has a cost, and so has each pair of alternatives of two joined nodes. `solve` finds the
optimum and proves it, or returns the best choice found in the time, with a bound of its distance from the optimum.
"""

from mavcg.choose.pbqp.instance import Instance, PbqpEdge, make_instance, total_cost
from mavcg.choose.pbqp.solver import Infeasible, Solution, solve
from mavcg.choose.pbqp.text import parse_instance, print_instance, read_instance, solution_json

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
