"""BLAS libraries: matrix products with versions per core, beside the BLAS that a program has."""
