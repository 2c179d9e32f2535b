"""Winograd family of convolution primitives: transforms, products of transformed tiles, inverse transform."""
