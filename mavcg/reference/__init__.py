"""Operators as NumPy says them: what folds constants, and what tests compare with.

Floats are computed in float64 and rounded once, at the end; whole numbers as they are.
"""

from mavcg.reference.evaluate import DEFINITIONS, evaluate, run

__all__ = ["DEFINITIONS", "evaluate", "run"]
