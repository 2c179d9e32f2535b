"""Macro-tiles and chunks of work for the engine's kernels on the cores of a board.

Where the next thing goes:

- Split of a layer for several threads: parts.py; its loops: kernels/conv/part_loops.py (docs/design/engine-tiles.md).
"""
