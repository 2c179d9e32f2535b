"""Convolution primitives: each family has a module with PRIMITIVES and EMIT; see docs/design/primitives.md.

Where the next thing goes:

- Convolution primitive: with PRIMITIVES and EMIT, listed in its registry.py (docs/design/primitives.md).
"""
