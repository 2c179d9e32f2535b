/* The BLAS library: `blas LIBRARY`. Products large enough for all threads, in f32 and f64; no routine has a status, so
 * that every result must be right whatever fails. */
#include <dlfcn.h>
#include <math.h>

#include "plan.h"

enum { M = 96, N = 300, K = 200, ROUNDS = 3, PAUSE_US = 3000 };

typedef void sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                   const float *b, int ldb, float beta, float *c, int ldc);
typedef void dgemm(int order, int trans_a, int trans_b, int m, int n, int k, double alpha, const double *a, int lda,
                   const double *b, int ldb, double beta, double *c, int ldc);

static sgemm *single_product;
static dgemm *double_product;
static float a[M * K], b[K * N], c[M * N];
static double da[M * K], db[K * N], dc[M * N], expected[M * N];

static int operate(void) {
    arm(1);
    for (int round = 0; round < ROUNDS; round++) {
        memset(c, 0x5A, sizeof c), memset(dc, 0x5A, sizeof dc);
        single_product(101, 111, 111, M, N, K, 1, a, K, b, N, 0, c, N);
        double_product(101, 111, 111, M, N, K, 1, da, K, db, N, 0, dc, N);
        for (int i = 0; i < M * N; i++)
            if (fabs(c[i] - expected[i]) > 1e-3 || fabs(dc[i] - expected[i]) > 1e-9) {
                fprintf(stderr, "element %d is %g, %g, not %g\n", i, c[i], dc[i], expected[i]);
                return WRONG;
            }
        usleep(PAUSE_US); /* in which its threads fall asleep */
    }
    arm(0);
    return RIGHT;
}

int main(int argc, char **argv) {
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library) {
        fprintf(stderr, "blas LIBRARY: %s\n", argc == 2 ? dlerror() : "arguments");
        return 2;
    }
    single_product = (sgemm *)dlsym(library, "cblas_sgemm");
    double_product = (dgemm *)dlsym(library, "cblas_dgemm");
    for (int i = 0; i < M * K; i++) a[i] = (float)(da[i] = i % 13 - 6);
    for (int i = 0; i < K * N; i++) b[i] = (float)(db[i] = i % 7 - 3);
    for (int i = 0; i < M; i++)
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++) expected[i * N + j] += da[i * K + k] * db[k * N + j];
    return try_all("BLAS", operate) ? 1 : 0;
}
