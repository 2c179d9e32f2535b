"""Convolution primitives: one module a family, each with PRIMITIVES and EMIT; see docs/design/primitives.md."""
