"""Macro-tiles and chunks of work for the engine's kernels on the cores of a board."""
