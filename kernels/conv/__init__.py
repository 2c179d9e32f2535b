"""Convolutions, depthwise and transposed convolutions, and matrix products in f32, around the micro-kernel."""
