"""Convolution primitives: each family has a module with PRIMITIVES and EMIT; see docs/design/primitives.md."""
