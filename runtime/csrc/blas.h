/* Types that all files of a BLAS library share.
 *
 * Matrices are column-major here; entries of row-major calls exchange A and B. The library needs libc alone: a routine
 * that it does not export comes from the next BLAS of the program. */
#ifndef MAVCG_BLAS_H
#define MAVCG_BLAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "internal.h"

#define BLAS_EXPORT __attribute__((visibility("default")))

enum blas_type { BLAS_F32, BLAS_F64 };

union blas_scalar {
    float f32;
    double f64;
};

/* Distances in bytes between terms of A and of B, between columns of B and of C; scalars. Emitters have the offsets of
 * the fields (kernels/blas/product_tile.py). */
struct blas_steps {
    int64_t a_step, b_step, b_column, c_column;
    union blas_scalar alpha, beta;
};

/* Computes C = alpha * A * B + beta * C for a register tile; C is not read where beta is 0. a, b, c: the tile's first
 * elements. last_rows: rows of the last `lanes` that there are. */
typedef void blas_tile(int64_t terms, const void *a, const void *b, void *c, const struct blas_steps *steps,
                       int64_t last_rows);

/* y += A * x, or y[j] += sum over rows of A[i, j] * x[i]; the distance of A's columns is column_bytes. */
typedef void blas_vector_product(int64_t rows, int64_t columns, const void *a, int64_t column_bytes, const void *x,
                                 void *y);

/* sums[j][i] += the dot product of A's column i and B's column j, whose terms are `steps` times 64 bytes, and where
 * tails is 1 64 bytes more at a_tail + 64 * i and b_tail + 64 * j. sums: 8 elements for each column of B. */
typedef void blas_dot_products(int64_t steps, int64_t tails, int64_t a_columns, int64_t b_columns, const void *a,
                               int64_t a_bytes, const void *b, int64_t b_bytes, const void *a_tail, const void *b_tail,
                               void *sums);

/* Register tile and blocks of a type (mavcg/specs/blas_blocks.py): item in bytes, the others in elements. */
struct blas_blocks {
    int64_t item, lanes, narrow_rows, rows, columns, kc, mc, nc, dot_columns, tall_rows;
};

/* How a register tile reads A and B (kernels/blas/product_tile.py): panels, or A as it lies and B with a column's terms
 * or a term's columns side by side. */
enum blas_form { FORM_PACKED, FORM_TERMS, FORM_COLUMNS, FORMS };

/* C = alpha * op(A) * op(B) + beta * C: op(A) is m x k, op(B) k x n. Strides in bytes. */
struct blas_product {
    enum blas_type type;
    bool a_transposed, b_transposed;
    int64_t m, n, k, a_stride, b_stride, c_stride;
    const char *a, *b;
    char *c;
    union blas_scalar alpha, beta;
};

#include "mavcg_blas_tables.h" /* generated, see runtime/blas_text.py */

MAVCG_DECLARE(MAVCG_SET)

#endif
