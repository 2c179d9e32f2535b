/* The product of a matrix and a vector. */
#ifndef MAVCG_BLAS_VECTOR_H
#define MAVCG_BLAS_VECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "blas.h"
#include "internal.h"

/* y = alpha * op(A) * x + beta * y; A is m x n. Strides in bytes; x and y point at the elements that are used first, as
 * strides may be negative. */
struct blas_vector_call {
    enum blas_type type;
    bool transposed;
    int64_t m, n, a_stride, x_stride, y_stride;
    const char *a, *x;
    char *y;
    union blas_scalar alpha, beta;
};

/* The function of a type for this core: sums over rows, or columns added. */
MAVCG_PRIVATE blas_vector_product *vector_function(enum blas_type type, bool sums);
MAVCG_PRIVATE void compute_vector_product(const struct blas_vector_call *call);

#endif
