/* A C program that calls the routines of half precision by OpenBLAS's declarations, and compares them with sums in
 * double. Prints a digest of all results' bits, and "near" if they are right and the thread's rounding mode stayed.
 * Numbers are of all sizes, subnormal ones and such as cancel included. */
#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint16_t bfloat16;
typedef uint16_t hfloat16;
enum CBLAS_ORDER { CblasRowMajor = 101, CblasColMajor = 102 };
enum CBLAS_TRANSPOSE { CblasNoTrans = 111, CblasTrans = 112 };

void cblas_sbgemm(enum CBLAS_ORDER, enum CBLAS_TRANSPOSE, enum CBLAS_TRANSPOSE, int, int, int, float, const bfloat16 *,
                  int, const bfloat16 *, int, float, float *, int);
void cblas_shgemm(enum CBLAS_ORDER, enum CBLAS_TRANSPOSE, enum CBLAS_TRANSPOSE, int, int, int, float, const hfloat16 *,
                  int, const hfloat16 *, int, float, float *, int);
void cblas_hgemm(enum CBLAS_ORDER, enum CBLAS_TRANSPOSE, enum CBLAS_TRANSPOSE, int, int, int, hfloat16,
                 const hfloat16 *, int, const hfloat16 *, int, hfloat16, hfloat16 *, int);
void hgemm_(const char *, const char *, const int *, const int *, const int *, const hfloat16 *, const hfloat16 *,
            const int *, const hfloat16 *, const int *, const hfloat16 *, hfloat16 *, const int *);
void sbgemm_(const char *, const char *, const int *, const int *, const int *, const float *, const bfloat16 *,
             const int *, const bfloat16 *, const int *, const float *, float *, const int *);
void shgemm_(const char *, const char *, const int *, const int *, const int *, const float *, const hfloat16 *,
             const int *, const hfloat16 *, const int *, const float *, float *, const int *);

enum { SIDE = 160, ELEMENTS = SIDE * SIDE };

static uint64_t digest = 0xcbf29ce484222325, state = 1;
static int right = 1;
static uint16_t a[ELEMENTS], b[ELEMENTS];
static double a_values[ELEMENTS], b_values[ELEMENTS];
static float before[ELEMENTS], c[ELEMENTS];
static uint16_t half_before[ELEMENTS], half_c[ELEMENTS];

static uint32_t bits(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

/* An element with one of 2^exponent_bits exponents from `least` on. */
static uint16_t element(int mantissa_bits, uint32_t least, uint32_t exponents) {
    const uint32_t r = bits();
    const uint32_t mantissa = r & ((1u << mantissa_bits) - 1), exponent = least + (r >> 16) % exponents;
    return (uint16_t)((r >> 31) << 15 | exponent << mantissa_bits | mantissa);
}

static double value_of(uint16_t x, int mantissa_bits) {
    const int bias = mantissa_bits == 7 ? 127 : 15, exponent = (x & 0x7fff) >> mantissa_bits;
    const double mantissa = x & ((1 << mantissa_bits) - 1), hidden = exponent ? 1 << mantissa_bits : 0;
    const double size = ldexp(hidden + mantissa, (exponent ? exponent : 1) - bias - mantissa_bits);
    return x >> 15 ? -size : size;
}

/* mantissa_bits: 7 for bfloat16, 10 for float16. least, exponents: range of the elements' exponents. */
static void check(int mantissa_bits, uint32_t least, uint32_t exponents, int m, int n, int k, int transposed) {
    const int ld = SIDE, ta = transposed & 1, tb = transposed >> 1 & 1;
    const float alpha = 0.75f, beta = transposed == 2 ? 0 : -0.5f;
    for (int i = 0; i < ELEMENTS; i++) {
        a[i] = element(mantissa_bits, least, exponents), b[i] = element(mantissa_bits, least, exponents);
        a_values[i] = value_of(a[i], mantissa_bits), b_values[i] = value_of(b[i], mantissa_bits);
        before[i] = c[i] = (float)ldexp((double)(int32_t)bits(), -31);
    }
    const char *letters[] = {"N", "T"};
    const enum CBLAS_TRANSPOSE cta = ta ? CblasTrans : CblasNoTrans, ctb = tb ? CblasTrans : CblasNoTrans;
    if (mantissa_bits == 7) {
        if (transposed & 1) sbgemm_(letters[ta], letters[tb], &m, &n, &k, &alpha, a, &ld, b, &ld, &beta, c, &ld);
        else cblas_sbgemm(CblasColMajor, cta, ctb, m, n, k, alpha, a, ld, b, ld, beta, c, ld);
    } else {
        if (transposed & 1) shgemm_(letters[ta], letters[tb], &m, &n, &k, &alpha, a, &ld, b, &ld, &beta, c, &ld);
        else cblas_shgemm(CblasRowMajor, ctb, cta, n, m, k, alpha, b, ld, a, ld, beta, c, ld);
    }
    for (size_t i = 0; i < sizeof c; i++) digest = (digest ^ ((const uint8_t *)c)[i]) * 0x100000001b3;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0, size = fabs(beta * before[j * SIDE + i]);
            for (int l = 0; l < k; l++) {
                const double x = a_values[ta ? i * SIDE + l : l * SIDE + i];
                const double y = b_values[tb ? l * SIDE + j : j * SIDE + l];
                sum += x * y, size += fabs(alpha * x * y);
            }
            const double want = alpha * sum + (beta == 0 ? 0 : beta * before[j * SIDE + i]);
            /* 2^-23: pairs are rounded to odd on some cores; 2^-120: subnormal elements may count as 0. */
            if (!(fabs(c[j * SIDE + i] - want) <= (k + 4) * (ldexp(size, -23) + ldexp(1, -120)))) right = 0;
        }
}

/* The same for C and scalars of float16. Results beyond its range are infinite. */
static void check_all_f16(uint32_t least, uint32_t exponents, int m, int n, int k, int transposed) {
    const int ld = SIDE, ta = transposed & 1, tb = transposed >> 1 & 1;
    const uint16_t alpha = 0x3a00, beta = transposed == 2 ? 0 : 0xb800; /* 0.75, -0.5 */
    for (int i = 0; i < ELEMENTS; i++) {
        a[i] = element(10, least, exponents), b[i] = element(10, least, exponents);
        a_values[i] = value_of(a[i], 10), b_values[i] = value_of(b[i], 10);
        half_before[i] = half_c[i] = element(10, least, exponents);
    }
    const char *letters[] = {"N", "T"};
    const enum CBLAS_TRANSPOSE cta = ta ? CblasTrans : CblasNoTrans, ctb = tb ? CblasTrans : CblasNoTrans;
    if (transposed & 1) hgemm_(letters[ta], letters[tb], &m, &n, &k, &alpha, a, &ld, b, &ld, &beta, half_c, &ld);
    else cblas_hgemm(CblasRowMajor, ctb, cta, n, m, k, alpha, b, ld, a, ld, beta, half_c, ld);
    for (size_t i = 0; i < sizeof half_c; i++) digest = (digest ^ ((const uint8_t *)half_c)[i]) * 0x100000001b3;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            const double kept = beta ? -0.5 * value_of(half_before[j * SIDE + i], 10) : 0;
            double sum = 0, size = fabs(kept);
            for (int l = 0; l < k; l++) {
                const double x = a_values[ta ? i * SIDE + l : l * SIDE + i];
                const double y = b_values[tb ? l * SIDE + j : j * SIDE + l];
                sum += x * y, size += fabs(x * y);
            }
            const uint16_t got = half_c[j * SIDE + i];
            if (size < 65504 &&
                !(fabs(value_of(got, 10) - (0.75 * sum + kept)) <= 70 * ldexp(size + ldexp(1, -12), -11)))
                right = 0;
        }
}

int main(void) {
    static const int sizes[][3] = {{1, 1, 1},     {7, 5, 3},      {8, 12, 16},  {33, 31, 71},
                                   {64, 48, 150}, {150, 140, 33}, {40, 5, 100}, {9, 3, 151}};
    fesetround(FE_DOWNWARD);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int transposed = 0; transposed < 4; transposed++) {
            const int m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
            check(7, 120, 8, m, n, k, transposed);  /* around 1 */
            check(7, 0, 90, m, n, k, transposed);   /* products and sums around the smallest normal number */
            check(7, 50, 100, m, n, k, transposed); /* of all sizes */
        }
    right &= fegetround() == FE_DOWNWARD;
    fesetround(FE_TONEAREST);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int transposed = 0; transposed < 4; transposed++) {
            check(10, 10, 6, sizes[i][0], sizes[i][1], sizes[i][2], transposed);
            check(10, 0, 31, sizes[i][0], sizes[i][1], sizes[i][2], transposed);
        }
    fesetround(FE_UPWARD);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int transposed = 0; transposed < 4; transposed++) {
            check_all_f16(8, 8, sizes[i][0], sizes[i][1], sizes[i][2], transposed);
            check_all_f16(0, 16, sizes[i][0], sizes[i][1], sizes[i][2], transposed); /* subnormal numbers, too */
            check_all_f16(0, 31, sizes[i][0], sizes[i][1], sizes[i][2], transposed);
        }
    right &= fegetround() == FE_UPWARD;
    printf("%016llx %s\n", (unsigned long long)digest, right ? "near" : "far");
    return 0;
}
