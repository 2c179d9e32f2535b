/* Products of a transposed A and few columns: each element of C is a sum over two columns that lie in memory term after
 * term, so nothing is packed. A group of A's columns stays in level 1 while all columns of B pass by. */
#include "blas_dots.h"

#include "blas_block.h"
#include "blas_team.h"
#include "blas_vector.h"

enum {
    DOT_GROUP = 8,         /* columns of A at a time: what the fastest versions of the sums take */
    DOT_TERMS = 1024,      /* of a block of the sum, as in products with vectors */
    DOT_ROWS = 64,         /* rows of C that threads take at least */
    LEAST_DOT_TERMS = 64,  /* terms from which on the sums of vectors' elements cost little */
    MOST_DOT_COLUMNS = 16, /* fewer than those of a register tile, from which on its panels are worth packing */
};

MAVCG_PRIVATE bool is_product_of_dots(const struct blas_product *p) {
    const bool lie_as_read = p->a_transposed && !p->b_transposed;
    const int64_t most = least(blocks_table[p->type].columns - 1, MOST_DOT_COLUMNS);
    return lie_as_read && p->n <= most && p->k >= LEAST_DOT_TERMS && p->m >= DOT_GROUP;
}

/* c = alpha * sums + beta * c */
static void add_dots(const struct blas_product *p, char *c, const double *sums, int64_t count) {
    const bool overwrites = p->type == BLAS_F32 ? p->beta.f32 == 0 : p->beta.f64 == 0;
    if (p->type == BLAS_F32) {
        float *to = (float *)c;
        const float *from = (const float *)sums;
        for (int64_t i = 0; i < count; i++)
            to[i] = overwrites ? p->alpha.f32 * from[i] : p->beta.f32 * to[i] + p->alpha.f32 * from[i];
    } else {
        double *to = (double *)c;
        for (int64_t i = 0; i < count; i++)
            to[i] = overwrites ? p->alpha.f64 * sums[i] : p->beta.f64 * to[i] + p->alpha.f64 * sums[i];
    }
}

static void compute_dot_rows(const struct blas_product *p, int64_t first, int64_t last) {
    const int64_t item = blocks_table[p->type].item;
    blas_vector_product *add_sums = vector_function(p->type, true);
    for (int64_t row = first; row < last; row += DOT_GROUP) {
        double sums[MOST_DOT_COLUMNS][DOT_GROUP] = {{0}}; /* floats in their first halves */
        const int64_t rows = least(last - row, DOT_GROUP);
        for (int64_t term = 0; term < p->k; term += DOT_TERMS)
            for (int64_t j = 0; j < p->n; j++)
                add_sums(least(p->k - term, DOT_TERMS), rows, p->a + row * p->a_stride + term * item, p->a_stride,
                         p->b + j * p->b_stride + term * item, sums[j]);
        for (int64_t j = 0; j < p->n; j++) add_dots(p, p->c + j * p->c_stride + row * item, sums[j], rows);
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
