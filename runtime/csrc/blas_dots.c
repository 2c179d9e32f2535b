/* Multiplies a transposed A by a B of few columns. Each element of C is a dot product of two columns that are
 * contiguous in memory, so nothing is packed. A group of A's columns stays in the level-1 cache while all columns of B
 * stream through. */
#include "blas_dots.h"

#include <string.h>

#include "blas_block.h"
#include "blas_team.h"

enum {
    DOT_GROUP = 8,         /* columns of A in a group; kernels rely on this number */
    DOT_BYTES = 2048,      /* bytes per column in a block of the sum: four of A and four of B fit the level-1 cache */
    STEP_BYTES = 64,       /* bytes of partial sums per dot product: kernels process as many bytes of terms at a time */
    DOT_ROWS = 64,         /* minimum chunk of a thread, in rows of C */
    LEAST_DOT_TERMS = 64,  /* minimum sum length: the final sum over a vector's lanes is cheap then */
    TERMS_OF_COLUMN = 8,   /* minimum sum length per column, above FEW_COLUMNS columns: packed panels pay off there */
    FEW_COLUMNS = 16,      /* up to here LEAST_DOT_TERMS suffices */
    MOST_DOT_COLUMNS = 96, /* upper bound of dot_columns in every library */
};

MAVCG_PRIVATE bool is_product_of_dots(const struct blas_product *p) {
    const bool lie_as_read = p->a_transposed && !p->b_transposed;
    const bool few = p->n <= least(blocks_table[p->type].dot_columns, MOST_DOT_COLUMNS);
    const bool long_sums = p->k >= LEAST_DOT_TERMS && (p->n <= FEW_COLUMNS || p->k >= TERMS_OF_COLUMN * p->n);
    return lie_as_read && few && long_sums && p->m >= DOT_GROUP;
}

/* Compute c = alpha * dots + beta * c. */
static void add_dots(const struct blas_product *p, char *c, const char *dots, int64_t count) {
    const bool overwrites = p->type == BLAS_F32 ? p->beta.f32 == 0 : p->beta.f64 == 0;
    if (p->type == BLAS_F32) {
        float *to = (float *)c;
        const float *from = (const float *)dots;
        for (int64_t i = 0; i < count; i++)
            to[i] = overwrites ? p->alpha.f32 * from[i] : p->beta.f32 * to[i] + p->alpha.f32 * from[i];
    } else {
        double *to = (double *)c;
        const double *from = (const double *)dots;
        for (int64_t i = 0; i < count; i++)
            to[i] = overwrites ? p->alpha.f64 * from[i] : p->beta.f64 * to[i] + p->alpha.f64 * from[i];
    }
}

static blas_dot_products *dot_function(enum blas_type type) {
    void *version = MAVCG_NAME(version, MAVCG_SET)(&dot_functions[type]);
    if (!version) version = MAVCG_NAME(select, MAVCG_SET)(&dot_functions[type]);
    return ((blas_dot_products *const *)version)[0];
}

/* Copy the last `bytes` (less than STEP_BYTES) of each column, padded with zeros to STEP_BYTES. */
static void copy_tails(char *to, const char *from, int64_t stride, int64_t columns, size_t bytes) {
    memset(to, 0, (size_t)(columns * STEP_BYTES));
    for (int64_t i = 0; i < columns; i++) memcpy(to + i * STEP_BYTES, from + i * stride, bytes);
}

static void compute_dot_rows(const struct blas_product *p, int64_t first, int64_t last) {
    const int64_t item = blocks_table[p->type].item, bytes = p->k * item;
    const size_t tail = (size_t)(bytes % STEP_BYTES);
    const int64_t whole = bytes - (int64_t)tail;
    blas_dot_products *add_dot_products = dot_function(p->type);
    __attribute__((aligned(STEP_BYTES))) char a_tail[DOT_GROUP * STEP_BYTES], b_tail[MOST_DOT_COLUMNS * STEP_BYTES];
    if (tail) copy_tails(b_tail, p->b + whole, p->b_stride, p->n, tail);
    for (int64_t row = first; row < last; row += DOT_GROUP) {
        double sums[MOST_DOT_COLUMNS * DOT_GROUP]; /* f32 uses the first half */
        const int64_t rows = least(last - row, DOT_GROUP);
        const char *a = p->a + row * p->a_stride;
        memset(sums, 0, (size_t)(p->n * DOT_GROUP * item));
        if (tail) copy_tails(a_tail, a + whole, p->a_stride, rows, tail);
        for (int64_t at = 0; at < whole || at == 0; at += DOT_BYTES) {
            const bool ends = at + DOT_BYTES >= whole;
            add_dot_products(least(whole - at, DOT_BYTES) / STEP_BYTES, ends && tail, rows, p->n, a + at, p->a_stride,
                             p->b + at, p->b_stride, a_tail, b_tail, sums);
        }
        for (int64_t j = 0; j < p->n; j++)
            add_dots(p, p->c + j * p->c_stride + row * item, (const char *)sums + j * DOT_GROUP * item, rows);
    }
}

static void run_dot_rows(const void *work, uint32_t begin, uint32_t end) {
    const struct blas_product *p = work;
    compute_dot_rows(p, (int64_t)begin * DOT_ROWS, least((int64_t)end * DOT_ROWS, p->m));
}

MAVCG_PRIVATE void compute_dots(const struct blas_product *p, struct blas_team *team) {
    const int64_t units = (p->m + DOT_ROWS - 1) / DOT_ROWS;
    if (team && units > 1 && units <= INT32_MAX) run_step(team, run_dot_rows, p, (uint32_t)units, 1);
    else compute_dot_rows(p, 0, p->m);
}
