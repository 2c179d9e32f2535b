"""A graph -> the engine's program, and its kernels -> object files, one version per core."""
