"""Definitions of the operators in NumPy, for constant folding and as the reference of tests.

Floats are computed in float64 and rounded once at the end; integers are computed in their own type.
"""

from mavcg.graph.reference.evaluate import DEFINITIONS, evaluate, run

__all__ = ["DEFINITIONS", "evaluate", "run"]
