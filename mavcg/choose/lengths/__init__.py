"""Kernels for any lengths of bounded dimensions, made from graphs of a sample of lengths (docs/lengths.md)."""
