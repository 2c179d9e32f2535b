/* Calls CBLAS products in a loop, for bench/blas_worker.py: a call from Python takes longer than a small product. */
#include <stdint.h>
#include <time.h>

struct product {
    int32_t transa, transb;
    int64_t m, n, k, lda, ldb, ldc;
    const void *a, *b;
    void *c;
};

enum { COLUMN_MAJOR = 102 };

typedef void sgemm_32(int, int, int, int32_t, int32_t, int32_t, float, const float *, int32_t, const float *, int32_t,
                      float, float *, int32_t);
typedef void sgemm_64(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t,
                      float, float *, int64_t);
typedef void dgemm_32(int, int, int, int32_t, int32_t, int32_t, double, const double *, int32_t, const double *,
                      int32_t, double, double *, int32_t);
typedef void dgemm_64(int, int, int, int64_t, int64_t, int64_t, double, const double *, int64_t, const double *,
                      int64_t, double, double *, int64_t);

static double seconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void call(void *function, int is_double, int wide, const struct product *p) {
    int32_t m = (int32_t)p->m, n = (int32_t)p->n, k = (int32_t)p->k;
    int32_t lda = (int32_t)p->lda, ldb = (int32_t)p->ldb, ldc = (int32_t)p->ldc;
    if (is_double && wide)
        ((dgemm_64 *)function)(COLUMN_MAJOR, p->transa, p->transb, p->m, p->n, p->k, 1, p->a, p->lda, p->b, p->ldb, 0,
                               p->c, p->ldc);
    else if (is_double)
        ((dgemm_32 *)function)(COLUMN_MAJOR, p->transa, p->transb, m, n, k, 1, p->a, lda, p->b, ldb, 0, p->c, ldc);
    else if (wide)
        ((sgemm_64 *)function)(COLUMN_MAJOR, p->transa, p->transb, p->m, p->n, p->k, 1, p->a, p->lda, p->b, p->ldb, 0,
                               p->c, p->ldc);
    else ((sgemm_32 *)function)(COLUMN_MAJOR, p->transa, p->transb, m, n, k, 1, p->a, lda, p->b, ldb, 0, p->c, ldc);
}

/* Seconds of `calls` calls after one that is not counted, by the wall clock and of the process's processor time. */
void seconds_of_calls(void *function, int is_double, int wide, const struct product *p, int64_t calls, double out[2]);

void seconds_of_calls(void *function, int is_double, int wide, const struct product *p, int64_t calls, double out[2]) {
    call(function, is_double, wide, p);
    double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int64_t i = 0; i < calls; i++) call(function, is_double, wide, p);
    out[0] = seconds(CLOCK_MONOTONIC) - wall;
    out[1] = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
}
