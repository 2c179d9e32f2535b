"""Lowering of a graph to the engine's program, and of its kernels to object files, one version per core."""
