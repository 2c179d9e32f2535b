/* Cuts a matrix-vector product into blocks whose vectors are contiguous on the stack, and shares ranges of the result
 * among threads. The result does not depend on the number of threads. */
#include "blas_vector.h"

#include <string.h>

#include "blas.h"
#include "blas_team.h"
#include "internal.h"

enum {
    BLOCK = 1024,      /* elements of a vector that are buffered on the stack */
    UNIT = 64,         /* elements of y in a unit, which one thread computes */
    UNITS_AT_ONCE = 4, /* minimum chunk, in units */
};

/* Minimum number of elements of A for which waking threads pays. */
static const double PARALLEL_ELEMENTS = 5e5;

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

MAVCG_PRIVATE blas_vector_product *vector_function(enum blas_type type, bool sums) {
    void *version = MAVCG_NAME(version, MAVCG_SET)(&vector_functions[type]);
    if (!version) version = MAVCG_NAME(select, MAVCG_SET)(&vector_functions[type]);
    return ((blas_vector_product *const *)version)[sums];
}

#define ITEM(type) blocks_table[type].item

/* Compute to[i] = factor * from[i]. */
static void gather(enum blas_type type, char *to, const char *from, int64_t stride, int64_t count,
                   union blas_scalar factor) {
    if (type == BLAS_F32)
        for (int64_t i = 0; i < count; i++) ((float *)to)[i] = factor.f32 * *(const float *)(from + i * stride);
    else
        for (int64_t i = 0; i < count; i++) ((double *)to)[i] = factor.f64 * *(const double *)(from + i * stride);
}

/* Compute to[i] = beta * from[i]; if beta is 0, store 0 without reading `from`. */
static void gather_scaled(enum blas_type type, char *to, const char *from, int64_t stride, int64_t count,
                          union blas_scalar beta) {
    bool zero = type == BLAS_F32 ? beta.f32 == 0 : beta.f64 == 0;
    if (zero) memset(to, 0, (size_t)(count * ITEM(type)));
    else gather(type, to, from, stride, count, beta);
}

static void scatter(enum blas_type type, char *to, int64_t stride, const char *from, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (type == BLAS_F32) memcpy(to + i * stride, from + i * (int64_t)sizeof(float), sizeof(float));
        else memcpy(to + i * stride, from + i * (int64_t)sizeof(double), sizeof(double));
    }
}

/* Compute y = beta * y + alpha * sums. */
static void add_scaled(const struct blas_vector_call *call, char *y, const char *sums, int64_t count) {
    const bool overwrites = call->type == BLAS_F32 ? call->beta.f32 == 0 : call->beta.f64 == 0;
    for (int64_t i = 0; i < count; i++) {
        if (call->type == BLAS_F32) {
            float *place = (float *)(y + i * call->y_stride), total = call->alpha.f32 * ((const float *)sums)[i];
            *place = overwrites ? total : call->beta.f32 * *place + total;
        } else {
            double *place = (double *)(y + i * call->y_stride), total = call->alpha.f64 * ((const double *)sums)[i];
            *place = overwrites ? total : call->beta.f64 * *place + total;
        }
    }
}

/* Compute elements first to last - 1 of y = alpha * A * x + beta * y: the columns of A are added one after the
 * other. */
static void compute_rows_of_y(const struct blas_vector_call *call, int64_t first, int64_t last) {
    const int64_t item = ITEM(call->type);
    double x[BLOCK], y[BLOCK]; /* f32 uses the first halves */
    blas_vector_product *add_columns = vector_function(call->type, false);
    for (int64_t row = first; row < last; row += BLOCK) {
        int64_t rows = smaller(last - row, BLOCK);
        char *place = call->y + row * call->y_stride, *target = call->y_stride == item ? place : (char *)y;
        gather_scaled(call->type, target, place, call->y_stride, rows, call->beta);
        for (int64_t column = 0; column < call->n; column += BLOCK) {
            int64_t columns = smaller(call->n - column, BLOCK);
            gather(call->type, (char *)x, call->x + column * call->x_stride, call->x_stride, columns, call->alpha);
            add_columns(rows, columns, call->a + row * item + column * call->a_stride, call->a_stride, x, target);
        }
        if (target != place) scatter(call->type, place, call->y_stride, target, rows);
    }
}

/* Compute elements first to last - 1 of y for a transposed A: each is a sum over A's rows, block by block. */
static void compute_sums_of_y(const struct blas_vector_call *call, int64_t first, int64_t last) {
    const int64_t item = ITEM(call->type);
    const union blas_scalar one = call->type == BLAS_F32 ? (union blas_scalar){.f32 = 1}
                                                         : (union blas_scalar){.f64 = 1};
    double x[BLOCK], sums[BLOCK];
    blas_vector_product *add_sums = vector_function(call->type, true);
    for (int64_t column = first; column < last; column += BLOCK) {
        int64_t columns = smaller(last - column, BLOCK);
        memset(sums, 0, sizeof sums);
        for (int64_t row = 0; row < call->m; row += BLOCK) {
            int64_t rows = smaller(call->m - row, BLOCK);
            const char *values = call->x + row * call->x_stride;
            if (call->x_stride != item) {
                gather(call->type, (char *)x, values, call->x_stride, rows, one);
                values = (const char *)x;
            }
            add_sums(rows, columns, call->a + row * item + column * call->a_stride, call->a_stride, values, sums);
        }
        add_scaled(call, call->y + column * call->y_stride, (const char *)sums, columns);
    }
}

static void compute_part(const struct blas_vector_call *call, int64_t first, int64_t last) {
    if (call->transposed) compute_sums_of_y(call, first, last);
    else compute_rows_of_y(call, first, last);
}

static void run_vector_step(const void *work, uint32_t begin, uint32_t end) {
    const struct blas_vector_call *call = work;
    int64_t length = call->transposed ? call->n : call->m;
    compute_part(call, (int64_t)begin * UNIT, smaller((int64_t)end * UNIT, length));
}

MAVCG_PRIVATE void compute_vector_product(const struct blas_vector_call *call) {
    const int64_t length = call->transposed ? call->n : call->m;
    bool no_alpha = call->type == BLAS_F32 ? call->alpha.f32 == 0 : call->alpha.f64 == 0;
    bool keeps = call->type == BLAS_F32 ? call->beta.f32 == 1 : call->beta.f64 == 1;
    if (!call->m || !call->n || (no_alpha && keeps)) return;
    if (no_alpha) {
        double y[BLOCK];
        for (int64_t at = 0; at < length; at += BLOCK) {
            int64_t count = smaller(length - at, BLOCK);
            char *place = call->y + at * call->y_stride;
            gather_scaled(call->type, (char *)y, place, call->y_stride, count, call->beta);
            scatter(call->type, place, call->y_stride, (const char *)y, count);
        }
        return;
    }
    struct blas_team *team = (double)call->m * (double)call->n >= PARALLEL_ELEMENTS ? take_team() : NULL;
    const int64_t units = (length + UNIT - 1) / UNIT;
    if (team && units > UNITS_AT_ONCE && units <= INT32_MAX)
        run_step(team, run_vector_step, call, (uint32_t)units, UNITS_AT_ONCE);
    else compute_part(call, 0, length);
    return_team(team, team != NULL);
}
