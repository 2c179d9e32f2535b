"""The types that pass between a graph and machine code: layouts, kernel specs, primitives, macro-tiles, programs.

Where the next thing goes:

- Layout, layout conversion: primitive.py, kernels/primitives/convert.py (docs/selection.md).
"""
