/* Calls the register tiles for a block of C: a panel of B stays in the level-1 cache while the panels of A stream
 * through from level 2. */
#include "blas_block.h"

#include "blas.h"
#include "blas_half.h"
#include "blas_pack.h"
#include "blas_tiles.h"
#include "internal.h"

MAVCG_PRIVATE struct blas_panels rows_of_a(const struct blas_block *block) {
    const struct blas_product *p = block->product;
    const struct blas_blocks *blocks = &blocks_table[p->type];
    int64_t line_stride = p->a_transposed ? p->a_stride : blocks->given_item;
    int64_t term_stride = p->a_transposed ? blocks->given_item : p->a_stride;
    const char *from = p->a + block->row * line_stride + block->term * term_stride;
    return (struct blas_panels){p->type,      blocks->packed_item, blocks->rows, blocks->lanes, block->rows,
                                block->terms, line_stride,         term_stride,  from,          block->a_panels};
}

MAVCG_PRIVATE struct blas_panels columns_of_b(const struct blas_block *block) {
    const struct blas_product *p = block->product;
    const struct blas_blocks *blocks = &blocks_table[p->type];
    int64_t line_stride = p->b_transposed ? blocks->given_item : p->b_stride;
    int64_t term_stride = p->b_transposed ? p->b_stride : blocks->given_item;
    const char *from = p->b + block->column * line_stride + block->term * term_stride;
    return (struct blas_panels){p->type,      blocks->packed_item, blocks->columns, 1,    block->columns,
                                block->terms, line_stride,         term_stride,     from, block->b_panels};
}

MAVCG_PRIVATE void multiply_block(const struct blas_block *block, int64_t first_row, int64_t last_row,
                                  int64_t first_column, int64_t last_column) {
    const struct blas_product *p = block->product;
    const struct blas_blocks *blocks = &blocks_table[p->type];
    const struct blas_panels a = rows_of_a(block), b = columns_of_b(block);
    const int64_t item = blocks->item, steps_of_sum = steps_of(blocks, block->terms);
    const int64_t panel_bytes = steps_of_sum * blocks->packed_item; /* of each row or column */
    struct blas_steps steps = {a.term_stride, b.term_stride, b.line_stride, p->c_stride, p->alpha, block->beta};
    const bool packed = block->a_panels && block->b_panels, adjacent = block->b_panels || p->b_transposed;
    const enum blas_form form = packed ? FORM_PACKED : adjacent ? FORM_COLUMNS : FORM_TERMS;
    blas_tile *const *tiles = tiles_of(p->type);
    const uint64_t mode = begin_mode(p->type);
    const int64_t most = block->b_panels ? blocks->columns : most_columns(blocks, last_row - first_row);
    for (int64_t columns, j = first_column; j < last_column; j += columns) {
        columns = block->b_panels ? least(last_column - j, most) : columns_of_tile(most, last_column - j);
        const char *b_first = b.from + j * b.line_stride;
        char *c = p->c + (block->column + j) * p->c_stride + block->row * item;
        if (block->b_panels) {
            b_first = block->b_panels + j * panel_bytes;
            steps.b_step = columns * item;
            steps.b_column = item;
        }
        int64_t i = first_row;
        if (blocks->tall_rows && columns <= TALL_COLUMNS && form == FORM_COLUMNS && !block->a_panels)
            for (; i + blocks->tall_rows <= last_row; i += blocks->tall_rows)
                tall_tiles(tiles, blocks)[columns](steps_of_sum, a.from + i * a.line_stride, b_first, c + i * item,
                                                   &steps, blocks->lanes);
        for (; i < last_row; i += blocks->rows) {
            int64_t rows = least(last_row - i, blocks->rows);
            const char *a_first = a.from + i * a.line_stride;
            if (block->a_panels) {
                a_first = block->a_panels + i * panel_bytes;
                steps.a_step = units_of(blocks, rows) * blocks->lanes * item;
            }
            tile_of(tiles, blocks, form, rows, columns)(steps_of_sum, a_first, b_first, c + i * item, &steps,
                                                        last_rows_of(blocks, rows));
        }
    }
    end_mode(p->type, mode);
}
