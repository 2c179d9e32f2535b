/* Calls register tiles for a block: B's panel stays in level 1 while A's pass by, from level 2. */
#include "blas_block.h"

#include "blas.h"
#include "blas_pack.h"
#include "internal.h"

static blas_tile *const *tiles_of(enum blas_type type) {
    void *version = MAVCG_NAME(version, MAVCG_SET)(&product_functions[type]);
    if (!version) version = MAVCG_NAME(select, MAVCG_SET)(&product_functions[type]);
    return version;
}

MAVCG_PRIVATE struct blas_panels rows_of_a(const struct blas_block *block) {
    const struct blas_product *p = block->product;
    const struct blas_blocks *blocks = &blocks_table[p->type];
    int64_t line_stride = p->a_transposed ? p->a_stride : blocks->item;
    int64_t term_stride = p->a_transposed ? blocks->item : p->a_stride;
    const char *from = p->a + block->row * line_stride + block->term * term_stride;
    return (struct blas_panels){blocks->item, blocks->rows, blocks->lanes, block->rows,    block->terms,
                                line_stride,  term_stride,  from,          block->a_panels};
}

MAVCG_PRIVATE struct blas_panels columns_of_b(const struct blas_block *block) {
    const struct blas_product *p = block->product;
    const struct blas_blocks *blocks = &blocks_table[p->type];
    int64_t line_stride = p->b_transposed ? blocks->item : p->b_stride;
    int64_t term_stride = p->b_transposed ? p->b_stride : blocks->item;
    const char *from = p->b + block->column * line_stride + block->term * term_stride;
    return (struct blas_panels){blocks->item, blocks->columns, 1,    block->columns, block->terms,
                                line_stride,  term_stride,     from, block->b_panels};
}

MAVCG_PRIVATE void multiply_block(const struct blas_block *block, int64_t first_row, int64_t last_row,
                                  int64_t first_column, int64_t last_column) {
    const struct blas_product *p = block->product;
    const struct blas_blocks *blocks = &blocks_table[p->type];
    const struct blas_panels a = rows_of_a(block), b = columns_of_b(block);
    const int64_t item = blocks->item, panel_bytes = block->terms * item;
    const int lanes_shift = __builtin_ctzll(
        (uint64_t)blocks->lanes); /* a power of two: no division for small products */
    const int64_t units = blocks->rows >> lanes_shift;
    struct blas_steps steps = {a.term_stride, b.term_stride, b.line_stride, p->c_stride, p->alpha, block->beta};
    /* The forms packed and strided lie one after the other. */
    blas_tile *const *tiles = tiles_of(p->type) + (block->a_panels && block->b_panels ? 0 : units * blocks->columns);
    for (int64_t j = first_column; j < last_column; j += blocks->columns) {
        int64_t columns = least(last_column - j, blocks->columns);
        const char *b_first = b.from + j * b.line_stride;
        char *c = p->c + (block->column + j) * p->c_stride + block->row * item;
        if (block->b_panels) {
            b_first = block->b_panels + j * panel_bytes;
            steps.b_step = columns * item;
            steps.b_column = item;
        }
        for (int64_t i = first_row; i < last_row; i += blocks->rows) {
            int64_t rows = least(last_row - i, blocks->rows), used = (rows + blocks->lanes - 1) >> lanes_shift;
            const char *a_first = a.from + i * a.line_stride;
            if (block->a_panels) {
                a_first = block->a_panels + i * panel_bytes;
                steps.a_step = used * blocks->lanes * item;
            }
            tiles[(used - 1) * blocks->columns + columns - 1](block->terms, a_first, b_first, c + i * item, &steps,
                                                              ((rows - 1) & (blocks->lanes - 1)) + 1);
        }
    }
}

MAVCG_PRIVATE void multiply_unpacked(const struct blas_product *p) {
    const struct blas_blocks *blocks = &blocks_table[p->type];
    const int64_t item = blocks->item, lanes = blocks->lanes;
    const int64_t b_term = p->b_transposed ? p->b_stride : item, b_column = p->b_transposed ? item : p->b_stride;
    const int lanes_shift = __builtin_ctzll((uint64_t)lanes);
    const struct blas_steps steps = {p->a_stride, b_term, b_column, p->c_stride, p->alpha, p->beta};
    blas_tile *const *tiles = tiles_of(p->type) + (blocks->rows >> lanes_shift) * blocks->columns - 1;
    for (int64_t j = 0; j < p->n; j += blocks->columns) {
        const int64_t columns = least(p->n - j, blocks->columns);
        for (int64_t i = 0; i < p->m; i += blocks->rows) {
            const int64_t rows = least(p->m - i, blocks->rows), used = (rows - 1) >> lanes_shift;
            tiles[used * blocks->columns + columns](p->k, p->a + i * item, p->b + j * b_column,
                                                    p->c + j * p->c_stride + i * item, &steps,
                                                    ((rows - 1) & (lanes - 1)) + 1);
        }
    }
}
