/* A block of C with its range of terms, and where its parts of A and B are read from: packed panels, or the unpacked
 * matrices. */
#ifndef MAVCG_BLAS_BLOCK_H
#define MAVCG_BLAS_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "blas.h"
#include "blas_pack.h"
#include "blas_tiles.h"
#include "internal.h"

/* rows x columns elements of C from (`row`, `column`) on; `terms` terms of each sum from `term` on. a_panels, b_panels:
 * where A and B are packed; NULL: the matrix is read unpacked. */
struct blas_block {
    const struct blas_product *product;
    int64_t row, rows, column, columns, term, terms;
    char *a_panels, *b_panels;
    union blas_scalar beta;
};

static inline int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

/* Describe the block's part of A or of B for pack_panels. */
MAVCG_PRIVATE struct blas_panels rows_of_a(const struct blas_block *block);
MAVCG_PRIVATE struct blas_panels columns_of_b(const struct blas_block *block);

/* Compute rows first_row to last_row - 1 and columns first_column to last_column - 1, numbered within the block.
 * first_row and first_column are multiples of the register tile's sizes. */
MAVCG_PRIVATE void multiply_block(const struct blas_block *block, int64_t first_row, int64_t last_row,
                                  int64_t first_column, int64_t last_column);

#endif
