/* Types that all files of a BLAS library share.
 *
 * Matrices are column-major here; the entries for row-major calls exchange A and B. The library needs only libc: calls
 * of a routine that it does not export resolve to the next BLAS of the program. */
#ifndef MAVCG_BLAS_H
#define MAVCG_BLAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "internal.h"

#define BLAS_EXPORT __attribute__((visibility("default")))

/* The type of a product. BLAS_BF16, BLAS_F16: A and B are of this type; C, the scalars and the sums are f32.
 * BLAS_ALL_F16: C and the scalars of the routine are f16, too; blocks of C and their scalars are f32 (blas_f16.h). */
enum blas_type { BLAS_F32, BLAS_F64, BLAS_BF16, BLAS_F16, BLAS_ALL_F16 };

static inline bool is_half(enum blas_type type) { return type >= BLAS_BF16; }

union blas_scalar {
    float f32;
    double f64;
    uint16_t f16; /* bits */
};

/* Strides in bytes: between consecutive terms of A and of B, and between columns of B and of C; and the scalars.
 * Emitters know the offsets of the fields (kernels/blas/product_tile.py). */
struct blas_steps {
    int64_t a_step, b_step, b_column, c_column;
    union blas_scalar alpha, beta;
};

/* Computes C = alpha * A * B + beta * C for a register tile; C is not read if beta is 0. a, b, c: first elements of the
 * tile. terms: of bf16 in pairs, the number of pairs. last_rows: valid rows in the last vector of `lanes` rows. */
typedef void blas_tile(int64_t terms, const void *a, const void *b, void *c, const struct blas_steps *steps,
                       int64_t last_rows);

/* Computes y += A * x, or y[j] += sum over rows i of A[i, j] * x[i]. column_bytes: distance between columns of A. */
typedef void blas_vector_product(int64_t rows, int64_t columns, const void *a, int64_t column_bytes, const void *x,
                                 void *y);

/* Computes sums[j][i] += dot product of A's column i and B's column j, over `steps` blocks of 64 bytes; if tails is 1,
 * over another 64 bytes at a_tail + 64 * i and b_tail + 64 * j. sums: 8 elements for each column of B. */
typedef void blas_dot_products(int64_t steps, int64_t tails, int64_t a_columns, int64_t b_columns, const void *a,
                               int64_t a_bytes, const void *b, int64_t b_bytes, const void *a_tail, const void *b_tail,
                               void *sums);

/* Sizes of the register tile and of the cache blocks for an element type (mavcg/specs/blas_blocks.py), in elements but
 * for the sizes in bytes of a sum, and so of an element of C (item), of an element of A and B (given_item) and of a packed element of
 * them (packed_item). step_terms: terms in a packed element: 1, 2 or 4. */
struct blas_blocks {
    int64_t item, given_item, packed_item, step_terms, lanes, narrow_rows, rows, columns, kc, mc, nc, dot_columns,
        tall_rows, wide_columns;
};

/* How a register tile reads A and B (kernels/blas/product_tile.py). FORM_PACKED: both from packed panels. FORM_TERMS,
 * FORM_COLUMNS: A unpacked, and B unpacked with the terms of a column (TERMS) or the columns of a term (COLUMNS)
 * contiguous. */
enum blas_form { FORM_PACKED, FORM_TERMS, FORM_COLUMNS, FORMS };

/* The product C = alpha * op(A) * op(B) + beta * C: op(A) is m x k, op(B) is k x n. Strides in bytes. */
struct blas_product {
    enum blas_type type;
    bool a_transposed, b_transposed;
    int64_t m, n, k, a_stride, b_stride, c_stride;
    const char *a, *b;
    char *c;
    union blas_scalar alpha, beta;
};

#include "mavcg_blas_tables.h" /* generated, see runtime/blas_build.py */

MAVCG_DECLARE(MAVCG_SET)

#endif
