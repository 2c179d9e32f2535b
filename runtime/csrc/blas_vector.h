/* The product of a matrix and a vector. */
#ifndef MAVCG_BLAS_VECTOR_H
#define MAVCG_BLAS_VECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "blas.h"
#include "internal.h"

/* The product y = alpha * op(A) * x + beta * y; A is m x n. Strides in bytes; since they may be negative, x and y point
 * at the elements that are used first. */
struct blas_vector_call {
    enum blas_type type;
    bool transposed;
    int64_t m, n, a_stride, x_stride, y_stride;
    const char *a, *x;
    char *y;
    union blas_scalar alpha, beta;
};

/* Return the kernel of a type for this core: the one that sums over rows, or the one that adds columns. */
MAVCG_PRIVATE blas_vector_product *vector_function(enum blas_type type, bool sums);
MAVCG_PRIVATE void compute_vector_product(const struct blas_vector_call *call);

#endif
