/* Computes products whose C is f16 by parts of C: the sums of a part are f32, in a buffer, and are scaled, added to C and
 * rounded once, when they are complete. Parts never change a result. */
#include "blas_f16.h"

#include <stdbool.h>
#include <stdint.h>

#include "blas.h"
#include "blas_block.h"
#include "blas_half.h"
#include "blas_memory.h"
#include "blas_product.h"
#include "blas_team.h"
#include "blas_tiles.h"
#include "internal.h"

/* STACK_SUMS, MOST_SUMS: of a part, on the stack and in a buffer. A part of at least MANY_LINES rows and columns packs A
 * and B so seldom that it takes no time. */
enum {
    STACK_SUMS = 4 << 10,
    MOST_SUMS = 4 << 20,
    MANY_LINES = 2048,
    ITEM = sizeof(uint16_t),
    PART_ALIGN = 64,
    PAGE_SUMS = 1024,
    SHARED_SUMS = 1 << 18, /* parts from which on threads share the rounding */
    COLUMN_CHUNK_OF_SUMS = 4,
};

/* A part of C, and its sums; NULL: C is scaled only. stride: between columns of sums, in elements. */
struct f16_part {
    const struct blas_product *product;
    int64_t row, rows, column, columns, stride;
    float *sums, alpha, beta;
};

/* Return the distance of columns of sums: whole vectors, and not whole pages, which lie in the same lines of a cache. */
static int64_t sum_stride(int64_t rows) {
    const int64_t stride = round_up(rows, blocks_table[BLAS_ALL_F16].lanes);
    return stride % PAGE_SUMS ? stride : stride + PART_ALIGN / (int64_t)sizeof(float);
}

static void finish_f16_columns(const struct f16_part *part, int64_t begin, int64_t end) {
    const struct blas_product *p = part->product;
    const uint64_t mode = begin_mode(BLAS_ALL_F16);
    for (int64_t column = begin; column < end; column++)
        add_f16_column(p->c + (part->column + column) * p->c_stride + part->row * ITEM,
                       part->sums ? part->sums + column * part->stride : NULL, part->rows, part->alpha, part->beta);
    end_mode(BLAS_ALL_F16, mode);
}

static void run_f16_step(const void *work, uint32_t begin, uint32_t end) { finish_f16_columns(work, begin, end); }

static void compute_f16_part(const struct f16_part *part) {
    const struct blas_product *p = part->product;
    struct blas_product sums = *p;
    sums.m = part->rows, sums.n = part->columns;
    sums.a += part->row * (p->a_transposed ? p->a_stride : ITEM);
    sums.b += part->column * (p->b_transposed ? ITEM : p->b_stride);
    sums.c = (char *)part->sums, sums.c_stride = part->stride * (int64_t)sizeof(float);
    sums.alpha.f32 = 1, sums.beta.f32 = 0;
    compute_product(&sums);
    struct blas_team *team = part->rows * part->columns >= SHARED_SUMS ? take_team() : NULL;
    run_step(team, run_f16_step, part, (uint32_t)part->columns, COLUMN_CHUNK_OF_SUMS);
    return_team(team, false);
}

/* Compute C by parts of so many rows and columns. */
static void compute_f16_parts(struct f16_part *part, int64_t rows, int64_t columns) {
    const struct blas_product *p = part->product;
    for (part->column = 0; part->column < p->n; part->column += columns) {
        part->columns = least(p->n - part->column, columns);
        for (part->row = 0; part->row < p->m; part->row += rows) {
            part->rows = least(p->m - part->row, rows);
            compute_f16_part(part);
        }
    }
}

/* On the stack, for small products and where there is no memory for a buffer. */
__attribute__((noinline)) static void compute_f16_on_stack(struct f16_part *part) {
    __attribute__((aligned(PART_ALIGN))) float sums[STACK_SUMS];
    const struct blas_product *p = part->product;
    const int64_t all = sum_stride(p->m);
    const bool small = all * p->n <= STACK_SUMS;
    const int64_t rows = small ? p->m : blocks_table[BLAS_ALL_F16].rows;
    part->stride = small ? all : sum_stride(rows), part->sums = sums;
    compute_f16_parts(part, rows, STACK_SUMS / part->stride);
}

MAVCG_PRIVATE void compute_f16_product(const struct blas_product *p) {
    struct f16_part part = {.product = p, .rows = p->m, .columns = p->n};
    part.alpha = value_of_f16(p->alpha.f16), part.beta = value_of_f16(p->beta.f16);
    if (!p->m || !p->n) return;
    if (part.alpha == 0 || !p->k) {
        if (part.beta != 1) finish_f16_columns(&part, 0, p->n);
        return;
    }
    const int64_t all = sum_stride(p->m);
    if (all <= STACK_SUMS && p->n <= STACK_SUMS / all) {
        compute_f16_on_stack(&part);
        return;
    }
    const bool few_rows = all < MANY_LINES;
    const int64_t columns = least(p->n, few_rows ? MOST_SUMS / all : MANY_LINES);
    const int64_t rows = few_rows ? p->m : least(p->m, MOST_SUMS / columns / PAGE_SUMS * PAGE_SUMS);
    part.stride = sum_stride(rows);
    struct blas_buffer buffer = take_buffer((size_t)(part.stride * columns) * sizeof(float));
    part.sums = (float *)buffer.start;
    if (buffer.bytes) compute_f16_parts(&part, rows, columns);
    else compute_f16_on_stack(&part);
    return_buffer(buffer);
}
