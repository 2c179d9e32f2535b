"""Micro-kernels of f32 convolution and matrix product: register tiles, packing, tile prologues and epilogues."""
