"""Kernels of the BLAS: register tiles of matrix products whose sizes are known at run time."""
