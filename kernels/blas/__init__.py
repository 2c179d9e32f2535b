"""Kernels of the BLAS library: register tiles of matrix products whose sizes are known at run time."""
