"""BLAS libraries: matrix products with versions per core; another BLAS provides the other routines."""
