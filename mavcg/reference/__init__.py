"""Definitions of the operators in NumPy, for constant folding and as the reference in tests.

Floats are computed in float64 and rounded once, at the end; whole numbers as they are.
"""

from mavcg.reference.evaluate import DEFINITIONS, evaluate, run

__all__ = ["DEFINITIONS", "evaluate", "run"]
