"""Operators as NumPy says them: what folds constants, and what tests compare with."""
