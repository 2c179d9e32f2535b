/* Products of some sizes by a BLAS, each compared with sums in double; prints a digest of all results' bits. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>

void sgemm_(const char *, const char *, const int *, const int *, const int *, const float *, const float *,
            const int *, const float *, const int *, const float *, float *, const int *);
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *,
            const int *, const double *, const int *, const double *, double *, const int *);
void sgemv_(const char *, const int *, const int *, const float *, const float *, const int *, const float *,
            const int *, const float *, float *, const int *);
void dgemv_(const char *, const int *, const int *, const double *, const double *, const int *, const double *,
            const int *, const double *, double *, const int *);

enum { SIDE = 160 };

static uint64_t digest = 0xcbf29ce484222325, state = 1;
static double worst;

static double number(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)state / 9.3e18;
}

static void add(const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) digest = (digest ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3;
}

#define CHECK(real, gemm, gemv, eps)                                                                                  \
    static void check_##gemm(int m, int n, int k, int transa, int transb) {                                           \
        static real a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE], before[SIDE * SIDE];                              \
        const int ld = SIDE, one = 1;                                                                                 \
        const real alpha = (real)0.75, beta = (real)-0.5;                                                             \
        for (int i = 0; i < SIDE * SIDE; i++)                                                                         \
            a[i] = (real)number(), b[i] = (real)number(), before[i] = c[i] = (real)number();                          \
        gemm(transa ? "T" : "N", transb ? "T" : "N", &m, &n, &k, &alpha, a, &ld, b, &ld, &beta, c, &ld);              \
        add(c, sizeof c);                                                                                             \
        for (int i = 0; i < m; i++)                                                                                   \
            for (int j = 0; j < n; j++) {                                                                             \
                double sum = 0;                                                                                       \
                for (int l = 0; l < k; l++)                                                                           \
                    sum += (double)a[transa ? i * SIDE + l : l * SIDE + i] * b[transb ? l * SIDE + j : j * SIDE + l]; \
                double apart = fabs(c[j * SIDE + i] - (alpha * sum + beta * before[j * SIDE + i])) / (k + 4) / (eps); \
                if (!(apart <= worst)) worst = apart;                                                                 \
            }                                                                                                         \
        gemv(transa ? "T" : "N", &m, &n, &alpha, a, &ld, b, &one, &beta, c, &one);                                    \
        add(c, sizeof c);                                                                                             \
    }

CHECK(float, sgemm_, sgemv_, 6e-8)
CHECK(double, dgemm_, dgemv_, 1.1e-16)

int main(void) {
    static const int sizes[][3] = {{1, 1, 1},     {7, 5, 3},      {8, 12, 16},  {33, 31, 70},
                                   {64, 48, 150}, {150, 140, 33}, {40, 5, 100}, {9, 3, 150}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int trans = 0; trans < 4; trans++) {
            check_sgemm_(sizes[i][0], sizes[i][1], sizes[i][2], trans & 1, trans >> 1);
            check_dgemm_(sizes[i][0], sizes[i][1], sizes[i][2], trans & 1, trans >> 1);
        }
    printf("%016llx %s\n", (unsigned long long)digest, worst <= 1 ? "near" : "far");
    return 0;
}
