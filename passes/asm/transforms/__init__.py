"""Rewrites of assembly before scheduling: load splitting, register renaming, unrolling, re-rolling, folding."""
