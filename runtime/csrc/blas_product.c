/* Cuts a product into blocks that fit the caches (Goto and van de Geijn, "Anatomy of High-Performance Matrix
 * Multiplication"), decides what is packed, and shares packing and arithmetic among threads.
 *
 * Packing and threads never change a result: each element is always the same sum of the same blocks of terms. */
#include "blas_product.h"

#include <string.h>

#include "blas.h"
#include "blas_block.h"
#include "blas_dots.h"
#include "blas_memory.h"
#include "blas_pack.h"
#include "blas_team.h"
#include "blas_tiles.h"
#include "internal.h"

enum {
    PACKED_A_USES = 8,      /* pack A if it is used with more than so many panels of B */
    PACKED_B_USES = 8,      /* pack B if it is used with more than so many panels of A */
    STACK_BYTES = 16 << 10, /* size of panels on the stack, without a buffer */
    PANEL_ALIGN = 128,
    TERMS_UNIT = 4,      /* unroll factor of a register tile's loop over terms */
    F16_TERMS_UNIT = 64, /* terms that are added in f16: no block of terms divides them (kernels/blas/half_tile.py) */
    PANELS_FOR_THREADS = 8, /* minimum per thread; with fewer row panels threads share columns */
    ROW_CHUNK = 2,          /* minimum chunk, in panels of A: each is multiplied by all of B */
    COLUMN_CHUNK = 4,       /* minimum chunk, in panels of B: each is multiplied by all of A */
    PACK_CHUNK = 4,
    MOST_SPLIT = 4,     /* threads that split a product: each packs one matrix whole */
    LEAST_SPLIT = 32,   /* rows or columns of a part */
    SPLIT_ALIGN = 4096, /* of a part's panels */
};

/* Minimum size of a product, in multiply-adds, for which waking threads pays. */
static const double PARALLEL_PRODUCT = 2e6;

static bool equals(enum blas_type type, union blas_scalar scalar, double value) {
    return type != BLAS_F64 ? (double)scalar.f32 == value : scalar.f64 == value;
}

static union blas_scalar scalar_one(enum blas_type type) {
    union blas_scalar scalar = {.f64 = 1};
    if (type != BLAS_F64) scalar.f32 = 1;
    return scalar;
}

/* Compute C = beta * C; C is not read if beta is 0. */
static void scale_result(const struct blas_product *p) {
    const bool overwrites = equals(p->type, p->beta, 0);
    for (int64_t j = 0; j < p->n; j++) {
        char *column = p->c + j * p->c_stride;
        if (overwrites) {
            memset(column, 0, (size_t)(p->m * blocks_table[p->type].item));
        } else if (p->type != BLAS_F64) {
            for (int64_t i = 0; i < p->m; i++) ((float *)column)[i] *= p->beta.f32;
        } else {
            for (int64_t i = 0; i < p->m; i++) ((double *)column)[i] *= p->beta.f64;
        }
    }
}

/* Return the size of the blocks that `count` is divided into: nearly equal, multiples of `unit`, at most `most`. */
static int64_t block_size(int64_t count, int64_t most, int64_t unit) {
    if (count <= most) return most;
    int64_t blocks = (count + most - 1) / most;
    return least(most, round_up((count + blocks - 1) / blocks, unit));
}

static bool is_small(const struct blas_product *p) {
    if (p->m > SMALL_PRODUCT || p->n > SMALL_PRODUCT || p->k > SMALL_PRODUCT) return false;
    return p->m * p->n <= SMALL_PRODUCT && p->m * p->n * p->k <= SMALL_PRODUCT;
}

/* True if register tiles can read the rows of A without packing. */
static bool reads_a(const struct blas_product *p) {
    return !is_half(p->type) && !p->a_transposed && reads_rows(&blocks_table[p->type], p->m);
}

/* True if the products' terms are added in f16. */
static bool adds_f16(enum blas_type type) {
    return type == BLAS_ALL_F16 && blocks_table[type].packed_item == blocks_table[type].given_item;
}

/* Block sizes, and which matrices are packed. */
struct plan {
    int64_t kc, mc, nc;
    bool packs_a, packs_b;
};

static struct plan plan_product(const struct blas_product *p, uint32_t threads) {
    const struct blas_blocks *blocks = &blocks_table[p->type];
    const bool small = is_small(p);
    struct plan plan;
    plan.packs_a = !reads_a(p) || (!small && p->n > PACKED_A_USES * blocks->columns);
    plan.packs_b = is_half(p->type) || (!small && p->m > PACKED_B_USES * blocks->rows);
    plan.kc = block_size(p->k, blocks->kc, adds_f16(p->type) ? F16_TERMS_UNIT : TERMS_UNIT);
    plan.mc = block_size(p->m, blocks->mc * threads, blocks->rows);
    plan.nc = block_size(p->n, blocks->nc, blocks->columns);
    return plan;
}

static int64_t a_bytes(const struct blas_product *p, const struct plan *plan) {
    const struct blas_blocks *blocks = &blocks_table[p->type];
    if (!plan->packs_a) return 0;
    const int64_t steps = steps_of(blocks, least(p->k, plan->kc));
    return round_up(round_up(least(p->m, plan->mc), blocks->lanes) * steps * blocks->packed_item, PANEL_ALIGN);
}

static int64_t b_bytes(const struct blas_product *p, const struct plan *plan) {
    const struct blas_blocks *blocks = &blocks_table[p->type];
    return plan->packs_b ? least(p->n, plan->nc) * steps_of(blocks, least(p->k, plan->kc)) * blocks->packed_item : 0;
}

/* Compute a product if there is no memory for a buffer: pack a few terms of one register tile's rows at a time on the
 * stack. */
static void compute_without_buffer(const struct blas_product *p) {
    const struct blas_blocks *blocks = &blocks_table[p->type];
    __attribute__((aligned(PANEL_ALIGN))) char panels[STACK_BYTES];
    const int64_t most_terms = least(blocks->kc, STACK_BYTES / (blocks->rows * blocks->item));
    for (int64_t row = 0; row < p->m; row += blocks->rows) {
        struct blas_block block = {p, row, least(p->m - row, blocks->rows), 0, p->n, 0, 0, panels, NULL, p->beta};
        for (; block.term < p->k; block.term += block.terms) {
            block.terms = least(p->k - block.term, most_terms);
            struct blas_panels rows = rows_of_a(&block);
            pack_panels(&rows, 0, 1);
            multiply_block(&block, 0, block.rows, 0, block.columns);
            block.beta = scalar_one(p->type);
        }
    }
}

/* The same for half precision, whose B is packed too, a register tile's columns at a time. Where terms are added in f16
 * there are whole units of them, of few rows. */
static void compute_half_without_buffer(const struct blas_product *p) {
    const struct blas_blocks *blocks = &blocks_table[p->type];
    __attribute__((aligned(PANEL_ALIGN))) char panels[STACK_BYTES];
    const int64_t rows = adds_f16(p->type) ? blocks->lanes : blocks->rows;
    int64_t steps = STACK_BYTES / ((rows + blocks->columns) * blocks->packed_item);
    if (adds_f16(p->type)) steps = steps / F16_TERMS_UNIT * F16_TERMS_UNIT;
    const int64_t most_terms = least(blocks->kc, steps * blocks->step_terms);
    char *b_panel = panels + steps * rows * blocks->packed_item;
    for (int64_t row = 0; row < p->m; row += rows)
        for (int64_t column = 0; column < p->n; column += blocks->columns) {
            struct blas_block block = {p, row, 0, column, 0, 0, 0, panels, b_panel, p->beta};
            block.rows = least(p->m - row, rows), block.columns = least(p->n - column, blocks->columns);
            for (; block.term < p->k; block.term += block.terms) {
                block.terms = least(p->k - block.term, most_terms);
                const struct blas_panels rows = rows_of_a(&block), columns = columns_of_b(&block);
                pack_panels(&rows, 0, 1);
                pack_panels(&columns, 0, 1);
                multiply_block(&block, 0, block.rows, 0, block.columns);
                block.beta = scalar_one(p->type);
            }
        }
}

/* The packing step that threads share. Its "rows" are the panels of B, if B is packed, followed by the panels of A. */
struct pack_step {
    struct blas_panels a, b;
    int64_t b_count;
};

static void run_pack_step(const void *work, uint32_t begin, uint32_t end) {
    const struct pack_step *step = work;
    int64_t first = begin, last = end;
    if (first < step->b_count) pack_panels(&step->b, first, least(last, step->b_count));
    if (last > step->b_count)
        pack_panels(&step->a, (first > step->b_count ? first : step->b_count) - step->b_count, last - step->b_count);
}

static void pack_block(struct blas_team *team, const struct blas_block *block, bool new_columns) {
    struct pack_step step = {rows_of_a(block), columns_of_b(block), 0};
    int64_t a_count = block->a_panels ? panel_count(&step.a) : 0;
    step.b_count = block->b_panels && new_columns ? panel_count(&step.b) : 0;
    if (a_count + step.b_count) run_step(team, run_pack_step, &step, (uint32_t)(a_count + step.b_count), PACK_CHUNK);
}

struct product_step {
    const struct blas_block *block;
    int64_t mc; /* rows that fit the level-2 cache */
    bool by_columns;
};

static void run_product_step(const void *work, uint32_t begin, uint32_t end) {
    const struct product_step *step = work;
    const struct blas_block *block = step->block;
    const struct blas_blocks *blocks = &blocks_table[block->product->type];
    int64_t first_row = 0, last_row = block->rows, first_column = 0, last_column = block->columns;
    if (step->by_columns) {
        first_column = begin * blocks->columns;
        last_column = least(block->columns, end * blocks->columns);
    } else {
        first_row = begin * blocks->rows;
        last_row = least(block->rows, end * blocks->rows);
    }
    for (; first_row < last_row; first_row += step->mc)
        multiply_block(block, first_row, least(last_row, first_row + step->mc), first_column, last_column);
}

static void multiply_in_team(struct blas_team *team, const struct blas_block *block) {
    const struct blas_blocks *blocks = &blocks_table[block->product->type];
    int64_t row_panels = (block->rows + blocks->rows - 1) / blocks->rows;
    int64_t column_panels = (block->columns + blocks->columns - 1) / blocks->columns;
    struct product_step step = {block, blocks->mc, false};
    int64_t row_chunk = ROW_CHUNK;
    if (block->columns <= TALL_COLUMNS && blocks->tall_rows) row_chunk = blocks->tall_rows / blocks->rows;
    step.by_columns = row_panels < (int64_t)PANELS_FOR_THREADS * team_threads(team) && column_panels > row_panels;
    run_step(team, run_product_step, &step, (uint32_t)(step.by_columns ? column_panels : row_panels),
             step.by_columns ? COLUMN_CHUNK : (uint32_t)row_chunk);
}

static void compute_blocks(const struct blas_product *p, const struct plan *plan, char *buffer,
                           struct blas_team *team) {
    struct blas_block block = {.product = p};
    if (plan->packs_a) block.a_panels = buffer;
    if (plan->packs_b) block.b_panels = buffer + a_bytes(p, plan);
    for (block.column = 0; block.column < p->n; block.column += plan->nc) {
        block.columns = least(p->n - block.column, plan->nc);
        block.beta = p->beta;
        for (block.term = 0; block.term < p->k; block.term += plan->kc) {
            block.terms = least(p->k - block.term, plan->kc);
            for (block.row = 0; block.row < p->m; block.row += plan->mc) {
                block.rows = least(p->m - block.row, plan->mc);
                pack_block(team, &block, block.row == 0);
                multiply_in_team(team, &block);
            }
            block.beta = scalar_one(p->type);
        }
    }
}

/* A product whose parts threads compute, each with panels of its own. unit: columns of a part, or rows. */
struct split_product {
    const struct blas_product *product;
    const struct plan *plan;
    char *buffer;
    int64_t unit, part_bytes;
    bool by_columns;
};

static void run_split(const void *work, uint32_t begin, uint32_t end) {
    const struct split_product *split = work;
    const struct blas_product *whole = split->product;
    const struct blas_blocks *blocks = &blocks_table[whole->type];
    for (int64_t number = begin; number < end; number++) {
        const int64_t first = number * split->unit;
        struct blas_product part = *whole;
        part.c += first * (split->by_columns ? whole->c_stride : blocks->item);
        if (split->by_columns) {
            part.n = least(whole->n - first, split->unit);
            part.b += first * (whole->b_transposed ? blocks->given_item : whole->b_stride);
        } else {
            part.m = least(whole->m - first, split->unit);
            part.a += first * (whole->a_transposed ? whole->a_stride : blocks->given_item);
        }
        compute_blocks(&part, split->plan, split->buffer + number * split->part_bytes, NULL);
    }
}

/* Compute a product in as many parts as there are threads, if its parts are not too narrow. Each thread packs what it
 * reads: what one of two threads packs for the other passes from one core's caches to the other's, which takes longer
 * than packing the shorter matrix twice. Returns false for other products, and if there is no memory. */
static bool compute_split(const struct blas_product *p, struct blas_team *team) {
    const struct blas_blocks *blocks = &blocks_table[p->type];
    const int64_t threads = team_threads(team);
    if (!EQUAL_CORES || threads < 2 || threads > MOST_SPLIT) return false;
    struct split_product split = {.product = p, .by_columns = p->n >= p->m};
    const int64_t size = split.by_columns ? p->n : p->m, tile = split.by_columns ? blocks->columns : blocks->rows;
    split.unit = round_up((size + threads - 1) / threads, tile);
    const int64_t parts = (size + split.unit - 1) / split.unit;
    if (parts < threads || split.unit < LEAST_SPLIT || 4 * (size - (parts - 1) * split.unit) < 3 * split.unit)
        return false;
    struct blas_product part = *p;
    *(split.by_columns ? &part.n : &part.m) = split.unit;
    const struct plan plan = plan_product(&part, 1);
    split.plan = &plan;
    split.part_bytes = round_up(a_bytes(&part, &plan) + b_bytes(&part, &plan), SPLIT_ALIGN);
    struct blas_buffer buffer = {NULL, 0};
    if (split.part_bytes) buffer = take_buffer((size_t)(split.part_bytes * parts));
    if (split.part_bytes && !buffer.bytes) return false;
    split.buffer = buffer.start;
    run_step(team, run_split, &split, (uint32_t)parts, 1);
    return_buffer(buffer);
    return true;
}

BLAS_INLINE void multiply_as_it_lies(enum blas_type type, const struct blas_product *p) {
    multiply_small(type, p->b_transposed, p->m, p->n, p->k, p->alpha, p->a, p->a_stride, p->b, p->b_stride, p->beta,
                   p->c, p->c_stride);
}

/* Not inlined into compute_product, to keep the stack frame of small products small. */
__attribute__((noinline)) static void compute_large_product(const struct blas_product *p) {
    double work = (double)p->m * (double)p->n * (double)p->k;
    const bool may_share = work * (double)blocks_table[p->type].item > UNSHARED_PRODUCT_BYTES;
    struct blas_team *team = work >= PARALLEL_PRODUCT ? take_team() : may_share ? take_polling_team() : NULL;
    if (is_product_of_dots(p)) {
        compute_dots(p, team);
        return_team(team, may_share);
        return;
    }
    if (!team && is_small(p) && reads_a(p) && p->k <= blocks_table[p->type].kc) {
        if (p->type == BLAS_F32) multiply_as_it_lies(BLAS_F32, p);
        else multiply_as_it_lies(BLAS_F64, p);
        return_team(team, may_share);
        return;
    }
    if (team && compute_split(p, team)) {
        return_team(team, may_share);
        return;
    }
    const struct plan plan = plan_product(p, team_threads(team));
    const int64_t bytes = a_bytes(p, &plan) + b_bytes(p, &plan);
    if (bytes <= STACK_BYTES) {
        __attribute__((aligned(PANEL_ALIGN))) char panels[STACK_BYTES];
        compute_blocks(p, &plan, panels, team);
    } else {
        struct blas_buffer buffer = take_buffer((size_t)bytes);
        if (buffer.bytes) compute_blocks(p, &plan, buffer.start, team);
        else if (is_half(p->type)) compute_half_without_buffer(p);
        else compute_without_buffer(p);
        return_buffer(buffer);
    }
    return_team(team, may_share);
}

/* Return the size of a packed copy of A with contiguous rows, padded to whole vectors, in bytes. */
static int64_t copy_bytes(const struct blas_product *p) {
    const struct blas_blocks *blocks = &blocks_table[p->type];
    return p->k * units_of(blocks, p->m) * blocks->lanes * blocks->item;
}

/* Compute a product that has one block of terms, with A copied to the stack. */
BLAS_INLINE void multiply_copy(enum blas_type type, const struct blas_product *p) {
    const struct blas_blocks *blocks = &blocks_table[type];
    __attribute__((aligned(PANEL_ALIGN))) char copy[STACK_BYTES];
    const int64_t width = units_of(blocks, p->m) * blocks->lanes;
    const struct blas_block block = {.product = p, .rows = p->m, .terms = p->k, .a_panels = copy};
    struct blas_panels panels = rows_of_a(&block);
    panels.width = width;
    pack_panels(&panels, 0, 1);
    multiply_small(type, p->b_transposed, p->m, p->n, p->k, p->alpha, copy, width * blocks->item, p->b, p->b_stride,
                   p->beta, p->c, p->c_stride);
}

__attribute__((noinline)) static void multiply_copy_f32(const struct blas_product *p) { multiply_copy(BLAS_F32, p); }

__attribute__((noinline)) static void multiply_copy_f64(const struct blas_product *p) { multiply_copy(BLAS_F64, p); }

MAVCG_PRIVATE void compute_product(const struct blas_product *p) {
    if (!p->m || !p->n) return;
    if (equals(p->type, p->alpha, 0) || !p->k) {
        if (!equals(p->type, p->beta, 1)) scale_result(p);
        return;
    }
    if (!is_half(p->type) && is_small_product(&blocks_table[p->type], p->m, p->n, p->k) && !reads_a(p) &&
        copy_bytes(p) <= STACK_BYTES) {
        if (p->type == BLAS_F32) multiply_copy_f32(p);
        else multiply_copy_f64(p);
        return;
    }
    compute_large_product(p);
}
