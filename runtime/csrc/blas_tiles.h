/* The register tiles of the core that a thread runs on, and small products, whose matrices they read unpacked.
 *
 * All functions are inline: with the type known at compile time little code remains, and a product of 4 x 4 x 4 takes
 * no longer than the checks of its arguments. */
#ifndef MAVCG_BLAS_TILES_H
#define MAVCG_BLAS_TILES_H

#include <stdbool.h>
#include <stdint.h>

#include "blas.h"
#include "internal.h"

/* SMALL_PRODUCT: multiply-adds up to which a matrix is packed only if it cannot be read unpacked.
 * UNSHARED_PRODUCT_BYTES: multiply-adds times element size up to which sharing costs more than it gains, even with
 * polling threads. */
enum { SMALL_PRODUCT = 112 * 112 * 112, UNSHARED_PRODUCT_BYTES = 3600000 };

#if defined(__x86_64__)
enum { READS_PARTIAL_VECTORS = 1 };
#else
enum { READS_PARTIAL_VECTORS = 0 }; /* NEON has no masked loads */
#endif

#define BLAS_INLINE static inline __attribute__((always_inline))

BLAS_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

BLAS_INLINE blas_tile *const *tiles_of(enum blas_type type) {
    void *version = MAVCG_NAME(version, MAVCG_SET)(&product_functions[type]);
    if (!version) version = MAVCG_NAME(select, MAVCG_SET)(&product_functions[type]);
    return version;
}

/* Return the number of vectors that hold so many rows. The vector length is a power of two, so that small products need
 * no division. */
BLAS_INLINE int64_t units_of(const struct blas_blocks *blocks, int64_t rows) {
    return (rows + blocks->lanes - 1) >> __builtin_ctzll((uint64_t)blocks->lanes);
}

/* Return the number of valid rows in the last vector. */
BLAS_INLINE int64_t last_rows_of(const struct blas_blocks *blocks, int64_t rows) {
    return ((rows - 1) & (blocks->lanes - 1)) + 1;
}

/* Return the number of packed elements that hold so many terms of a row or column. step_terms is 1, 2 or 4. */
BLAS_INLINE int64_t steps_of(const struct blas_blocks *blocks, int64_t terms) {
    return (terms + blocks->step_terms - 1) >> (blocks->step_terms >> 1);
}

/* Return the register tiles for a form and number of rows, indexed by the number of columns, from 1. */
BLAS_INLINE blas_tile *const *tiles_of_rows(blas_tile *const *tiles, const struct blas_blocks *blocks,
                                            enum blas_form form, int64_t rows) {
    const int64_t narrow = blocks->narrow_rows > 0, heights = units_of(blocks, blocks->rows) + narrow;
    const int64_t height = narrow && rows <= blocks->narrow_rows ? 0 : units_of(blocks, rows) - 1 + narrow;
    return tiles + ((int64_t)form * heights + height) * blocks->columns - 1;
}

/* Return the tall register tiles, indexed by the number of columns, from 1 to TALL_COLUMNS. */
BLAS_INLINE blas_tile *const *tall_tiles(blas_tile *const *tiles, const struct blas_blocks *blocks) {
    const int64_t heights = units_of(blocks, blocks->rows) + (blocks->narrow_rows > 0);
    return tiles + (int64_t)FORMS * heights * blocks->columns - 1;
}

/* Return the maximum number of columns of register tiles of so many rows where B is not packed: few rows have wide tiles,
 * as a tile of one vector of rows and few columns is bound by the latency of its sums. */
BLAS_INLINE int64_t most_columns(const struct blas_blocks *blocks, int64_t rows) {
    return rows <= blocks->lanes && blocks->wide_columns ? blocks->wide_columns : blocks->columns;
}

/* Return the register tile for a form with an unpacked B, so many rows and at most most_columns columns. */
BLAS_INLINE blas_tile *tile_of(blas_tile *const *tiles, const struct blas_blocks *blocks, enum blas_form form,
                               int64_t rows, int64_t columns) {
    if (columns <= blocks->columns) return tiles_of_rows(tiles, blocks, form, rows)[columns];
    const int64_t narrow = blocks->narrow_rows > 0, row = (form - FORM_TERMS) * (1 + narrow);
    const int64_t height = narrow && rows > blocks->narrow_rows, more = blocks->wide_columns - blocks->columns;
    blas_tile *const *wide = tall_tiles(tiles, blocks) + 1 + (blocks->tall_rows ? TALL_COLUMNS : 0);
    return wide[(row + height) * more + columns - blocks->columns - 1];
}

/* Return the number of columns of the next tile of at most `most`. The last two tiles are about equally wide, since a
 * tile of few columns is bound by the latency of its sums. */
BLAS_INLINE int64_t columns_of_tile(int64_t most, int64_t left) {
    if (left <= most) return left;
    return left < 2 * most ? (left + 1) >> 1 : most;
}

/* True for a product so small that it has one block of terms and is not shared among threads. */
BLAS_INLINE bool is_small_product(const struct blas_blocks *blocks, int64_t m, int64_t n, int64_t k) {
    return m > 0 && n > 0 && k > 0 && m <= SMALL_PRODUCT && n <= SMALL_PRODUCT && k <= blocks->kc &&
           m * n * k <= least(SMALL_PRODUCT, UNSHARED_PRODUCT_BYTES / blocks->item);
}

/* True if A can be read unpacked when its rows are contiguous. */
BLAS_INLINE bool reads_rows(const struct blas_blocks *blocks, int64_t m) {
    return READS_PARTIAL_VECTORS || m % blocks->lanes == 0;
}

/* Compute a product of one block of terms with A and B unpacked; A is not transposed. Strides in bytes. n is not 0. */
BLAS_INLINE void multiply_small(enum blas_type type, bool b_transposed, int64_t m, int64_t n, int64_t k,
                                union blas_scalar alpha, const char *a, int64_t a_stride, const char *b,
                                int64_t b_stride, union blas_scalar beta, char *c, int64_t c_stride) {
    const struct blas_blocks *blocks = &blocks_table[type];
    const int64_t item = blocks->item;
    const int64_t b_term = b_transposed ? b_stride : item, b_column = b_transposed ? item : b_stride;
    const enum blas_form form = b_transposed ? FORM_COLUMNS : FORM_TERMS;
    const struct blas_steps steps = {a_stride, b_term, b_column, c_stride, alpha, beta};
    const int64_t most = most_columns(blocks, m);
    blas_tile *const *tiles = tiles_of(type);
    for (int64_t columns;; b += columns * b_column, c += columns * c_stride) {
        columns = columns_of_tile(most, n);
        for (int64_t i = 0; i < m; i += blocks->rows) {
            const int64_t rows = least(m - i, blocks->rows);
            tile_of(tiles, blocks, form, rows, columns)(k, a + i * item, b, c + i * item, &steps,
                                                        last_rows_of(blocks, rows));
        }
        n -= columns;
        if (!n) return; /* before a step over the last column: a single one may have any stride */
    }
}

#endif
