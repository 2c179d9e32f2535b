/* Multiplies in blocks that fit the caches: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication". */
#include "blas_product.h"

#include <string.h>

#include "blas.h"
#include "blas_memory.h"
#include "blas_pack.h"
#include "internal.h"

enum {
    SMALL_PRODUCT = 64 * 64 * 64, /* multiply-adds below which panels of B are not worth packing */
    SMALL_ROWS_BYTES = 16 << 10,  /* of A, packed on the stack */
    PANEL_ALIGN = 128,
    TERMS_UNIT = 4, /* of a register tile's unrolled loop */
};

#if defined(__x86_64__)
enum { READS_PARTIAL_VECTORS = 1 };
#else
enum { READS_PARTIAL_VECTORS = 0 }; /* NEON has no masked loads */
#endif

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

static blas_tile *const *tiles_of(enum blas_type type) {
    void *version = MAVCG_NAME(version, MAVCG_SET)(&product_functions[type]);
    if (!version) version = MAVCG_NAME(select, MAVCG_SET)(&product_functions[type]);
    return version;
}

static bool is_zero(const struct blas_product *p, union blas_scalar value) {
    return p->type == BLAS_F32 ? value.f32 == 0 : value.f64 == 0;
}

/* C = beta * C, without a read of it where beta is 0. */
static void scale_result(const struct blas_product *p) {
    for (int64_t j = 0; j < p->n; j++) {
        char *column = p->c + j * p->c_stride;
        if (is_zero(p, p->beta)) {
            memset(column, 0, (size_t)(p->m * blocks_table[p->type].item));
        } else if (p->type == BLAS_F32) {
            for (int64_t i = 0; i < p->m; i++) ((float *)column)[i] *= p->beta.f32;
        } else {
            for (int64_t i = 0; i < p->m; i++) ((double *)column)[i] *= p->beta.f64;
        }
    }
}

static struct blas_panels rows_of_a(const struct blas_product *p, int64_t row, int64_t rows, int64_t term,
                                    int64_t terms, char *to) {
    const struct blas_blocks *blocks = &blocks_table[p->type];
    int64_t line_stride = p->a_transposed ? p->a_stride : blocks->item;
    int64_t term_stride = p->a_transposed ? blocks->item : p->a_stride;
    const char *from = p->a + row * line_stride + term * term_stride;
    return (struct blas_panels){blocks->item, blocks->rows, blocks->lanes, rows, terms,
                                line_stride,  term_stride,  from,          to};
}

static struct blas_panels columns_of_b(const struct blas_product *p, int64_t column, int64_t columns, int64_t term,
                                       int64_t terms, char *to) {
    const struct blas_blocks *blocks = &blocks_table[p->type];
    int64_t line_stride = p->b_transposed ? blocks->item : p->b_stride;
    int64_t term_stride = p->b_transposed ? p->b_stride : blocks->item;
    const char *from = p->b + column * line_stride + term * term_stride;
    return (struct blas_panels){blocks->item, blocks->columns, 1, columns, terms, line_stride, term_stride, from, to};
}

/* A register tile's function, of the forms packed and strided. */
static blas_tile *tile_of(const struct blas_blocks *blocks, blas_tile *const *tiles, bool strided, int64_t rows,
                          int64_t columns) {
    int64_t units = (rows + blocks->lanes - 1) / blocks->lanes, all = blocks->rows / blocks->lanes;
    return tiles[((strided ? all : 0) + units - 1) * blocks->columns + columns - 1];
}

/* The size of blocks that `count` is cut into: nearly equal ones of whole units, none larger than most. */
static int64_t block_size(int64_t count, int64_t most, int64_t unit) {
    int64_t blocks = (count + most - 1) / most;
    return least(most, round_up((count + blocks - 1) / blocks, unit));
}

static int64_t last_rows(const struct blas_blocks *blocks, int64_t rows) { return (rows - 1) % blocks->lanes + 1; }

/* All of a small product: B as it lies in memory, A too where vectors can be read from it. False where it is not small. */
static bool compute_small(const struct blas_product *p) {
    const struct blas_blocks *blocks = &blocks_table[p->type];
    bool packs = p->a_transposed || (!READS_PARTIAL_VECTORS && p->m % blocks->lanes);
    if (p->k > blocks->kc || p->m > SMALL_PRODUCT || p->n > SMALL_PRODUCT || p->m * p->n > SMALL_PRODUCT / p->k ||
        (packs && round_up(p->m, blocks->lanes) * p->k * blocks->item > SMALL_ROWS_BYTES))
        return false;
    __attribute__((aligned(PANEL_ALIGN))) char panels[SMALL_ROWS_BYTES];
    struct blas_steps steps = {p->a_stride,
                               p->b_transposed ? p->b_stride : blocks->item,
                               p->b_transposed ? blocks->item : p->b_stride,
                               p->c_stride,
                               p->alpha,
                               p->beta};
    blas_tile *const *tiles = tiles_of(p->type);
    if (packs) {
        struct blas_panels rows = rows_of_a(p, 0, p->m, 0, p->k, panels);
        pack_panels(&rows, 0, panel_count(&rows));
    }
    for (int64_t j = 0; j < p->n; j += blocks->columns) {
        int64_t columns = least(p->n - j, blocks->columns);
        for (int64_t i = 0; i < p->m; i += blocks->rows) {
            int64_t rows = least(p->m - i, blocks->rows);
            const char *a = p->a + i * blocks->item;
            if (packs) {
                a = panels + i * p->k * blocks->item;
                steps.a_step = round_up(rows, blocks->lanes) * blocks->item;
            }
            tile_of(blocks, tiles, true, rows, columns)(p->k, a, p->b + j * steps.b_column,
                                                        p->c + j * p->c_stride + i * blocks->item, &steps,
                                                        last_rows(blocks, rows));
        }
    }
    return true;
}

/* A block of C: rows x columns from `row` and `column`, `terms` terms of its sums. */
struct block {
    int64_t row, rows, column, columns, terms;
    const char *a_panels, *b_panels;
    union blas_scalar beta;
};

/* Multiply the packed panels: B's panel stays in level 1 while A's pass by, from level 2. */
static void multiply_block(const struct blas_product *p, const struct block *block) {
    const struct blas_blocks *blocks = &blocks_table[p->type];
    const struct blas_steps steps = {0, 0, 0, p->c_stride, p->alpha, block->beta};
    blas_tile *const *tiles = tiles_of(p->type);
    const int64_t panel_bytes = block->terms * blocks->item;
    for (int64_t j = 0; j < block->columns; j += blocks->columns) {
        int64_t columns = least(block->columns - j, blocks->columns);
        char *c = p->c + (block->column + j) * p->c_stride + block->row * blocks->item;
        for (int64_t i = 0; i < block->rows; i += blocks->rows) {
            int64_t rows = least(block->rows - i, blocks->rows);
            tile_of(blocks, tiles, false, rows, columns)(block->terms, block->a_panels + i * panel_bytes,
                                                         block->b_panels + j * panel_bytes, c + i * blocks->item,
                                                         &steps, last_rows(blocks, rows));
        }
    }
}

/* Without memory for panels: columns of C as sums of a few terms, whose panels lie on the stack. */
static void compute_without_buffer(const struct blas_product *p) {
    const struct blas_blocks *blocks = &blocks_table[p->type];
    __attribute__((aligned(PANEL_ALIGN))) char panels[SMALL_ROWS_BYTES];
    struct blas_steps steps = {0,
                               p->b_transposed ? p->b_stride : blocks->item,
                               p->b_transposed ? blocks->item : p->b_stride,
                               p->c_stride,
                               p->alpha,
                               p->beta};
    int64_t most_terms = least(blocks->kc, SMALL_ROWS_BYTES / (blocks->rows * blocks->item));
    blas_tile *const *tiles = tiles_of(p->type);
    for (int64_t i = 0; i < p->m; i += blocks->rows) {
        int64_t rows = least(p->m - i, blocks->rows);
        steps.beta = p->beta;
        steps.a_step = round_up(rows, blocks->lanes) * blocks->item;
        for (int64_t term = 0; term < p->k; term += most_terms) {
            int64_t terms = least(p->k - term, most_terms);
            struct blas_panels packed = rows_of_a(p, i, rows, term, terms, panels);
            pack_panels(&packed, 0, 1);
            for (int64_t j = 0; j < p->n; j += blocks->columns) {
                int64_t columns = least(p->n - j, blocks->columns);
                const char *b = p->b + j * steps.b_column + term * steps.b_step;
                tile_of(blocks, tiles, true, rows, columns)(terms, panels, b, p->c + j * p->c_stride + i * blocks->item,
                                                            &steps, last_rows(blocks, rows));
            }
            if (p->type == BLAS_F32) steps.beta.f32 = 1;
            else steps.beta.f64 = 1;
        }
    }
}

static void compute_blocks(const struct blas_product *p, char *buffer, int64_t a_bytes) {
    const struct blas_blocks *blocks = &blocks_table[p->type];
    char *a_panels = buffer, *b_panels = buffer + a_bytes;
    const int64_t kc = block_size(p->k, blocks->kc, TERMS_UNIT), mc = block_size(p->m, blocks->mc, blocks->rows);
    const int64_t nc = block_size(p->n, blocks->nc, blocks->columns);
    for (int64_t column = 0; column < p->n; column += nc) {
        int64_t columns = least(p->n - column, nc);
        union blas_scalar beta = p->beta;
        for (int64_t term = 0; term < p->k; term += kc) {
            int64_t terms = least(p->k - term, kc);
            struct blas_panels packed = columns_of_b(p, column, columns, term, terms, b_panels);
            pack_panels(&packed, 0, panel_count(&packed));
            for (int64_t row = 0; row < p->m; row += mc) {
                int64_t rows = least(p->m - row, mc);
                struct blas_panels packed_rows = rows_of_a(p, row, rows, term, terms, a_panels);
                pack_panels(&packed_rows, 0, panel_count(&packed_rows));
                const struct block block = {row, rows, column, columns, terms, a_panels, b_panels, beta};
                multiply_block(p, &block);
            }
            if (p->type == BLAS_F32) beta.f32 = 1;
            else beta.f64 = 1;
        }
    }
}

MAVCG_PRIVATE void compute_product(const struct blas_product *p) {
    const struct blas_blocks *blocks = &blocks_table[p->type];
    if (!p->m || !p->n) return;
    if (is_zero(p, p->alpha) || !p->k) {
        bool is_one = p->type == BLAS_F32 ? p->beta.f32 == 1 : p->beta.f64 == 1;
        if (!is_one) scale_result(p);
        return;
    }
    if (compute_small(p)) return;
    int64_t terms = least(p->k, blocks->kc), item = blocks->item;
    int64_t a_bytes = round_up(round_up(least(p->m, blocks->mc), blocks->lanes) * terms * item, PANEL_ALIGN);
    int64_t b_bytes = least(p->n, blocks->nc) * terms * item;
    struct blas_buffer buffer = take_buffer((size_t)(a_bytes + b_bytes));
    if (!buffer.bytes) {
        compute_without_buffer(p);
        return;
    }
    compute_blocks(p, buffer.start, a_bytes);
    return_buffer(buffer);
}
