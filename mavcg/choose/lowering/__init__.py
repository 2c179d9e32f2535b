"""Lowering of a graph to the engine's program, and of its kernels to object files, one version per core.

Where the next thing goes:

- Kernel that can be computed by parts of rows: row_access.py: what a unit of its rows touches (docs/applications.md).
"""
