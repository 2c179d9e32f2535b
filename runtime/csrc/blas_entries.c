/* The exported routines: arguments checked as the reference does, strides in bytes, A and B exchanged for row-major.
 *
 * Names: sgemm_ and cblas_sgemm have the integers of BLAS_INT (32 bits, or 64 of a library built with --ilp64); those
 * with 64_ or _64 always have 64 bits: sgemm_64_ (reference since 3.11, OpenBLAS, MKL), cblas_sgemm_64 (reference, MKL),
 * cblas_sgemm64_ (OpenBLAS); the prefix scipy_ is that of the OpenBLAS in NumPy's and SciPy's wheels. */
#include <stdbool.h>
#include <stdint.h>

#include "blas.h"
#include "blas_errors.h"
#include "blas_next.h"
#include "blas_product.h"
#include "internal.h"

#if defined(BLAS_ILP64)
typedef int64_t blas_int;
#else
typedef int32_t blas_int;
#endif

enum { ROW_MAJOR = 101, COLUMN_MAJOR = 102, NOT_TRANSPOSED = 111, TRANSPOSED = 112, CONJUGATE_TRANSPOSED = 113 };
enum { NO_CHOICE = -1 };

static const char *const gemm_names[] = {"SGEMM ", "DGEMM "}, *const cblas_gemm_names[] = {"cblas_sgemm",
                                                                                           "cblas_dgemm"};

struct matrices {
    int64_t m, n, k, a_stride, b_stride, c_stride; /* strides in elements */
    const void *a, *b;
    void *c;
    union blas_scalar alpha, beta;
};

/* 0 or 1 for a letter of the Fortran interface, NO_CHOICE for any other. */
static int transposed_by_letter(char letter) {
    switch (letter) {
    case 'n':
    case 'N': return 0;
    case 't':
    case 'T':
    case 'c':
    case 'C': return 1;
    default: return NO_CHOICE;
    }
}

static int transposed_by_number(int number) {
    if (number == NOT_TRANSPOSED) return 0;
    return number == TRANSPOSED || number == CONJUGATE_TRANSPOSED ? 1 : NO_CHOICE;
}

static int64_t at_least_one(int64_t value) { return value > 1 ? value : 1; }

/* The number of the first bad argument of the Fortran routine, 0 for none. */
static int64_t bad_argument(int a_transposed, int b_transposed, const struct matrices *given) {
    if (a_transposed == NO_CHOICE) return 1;
    if (b_transposed == NO_CHOICE) return 2;
    if (given->m < 0) return 3;
    if (given->n < 0) return 4;
    if (given->k < 0) return 5;
    if (given->a_stride < at_least_one(a_transposed ? given->k : given->m)) return 8;
    if (given->b_stride < at_least_one(b_transposed ? given->n : given->k)) return 10;
    if (given->c_stride < at_least_one(given->m)) return 13;
    return 0;
}

static void multiply(enum blas_type type, int a_transposed, int b_transposed, const struct matrices *given) {
    const int64_t item = blocks_table[type].item;
    const struct blas_product product = {
        .type = type,
        .a_transposed = a_transposed,
        .b_transposed = b_transposed,
        .m = given->m,
        .n = given->n,
        .k = given->k,
        .a_stride = given->a_stride * item,
        .b_stride = given->b_stride * item,
        .c_stride = given->c_stride * item,
        .a = given->a,
        .b = given->b,
        .c = given->c,
        .alpha = given->alpha,
        .beta = given->beta,
    };
    compute_product(&product);
}

static void gemm(enum blas_type type, bool wide, char a_letter, char b_letter, const struct matrices *given) {
    int a_transposed = transposed_by_letter(a_letter), b_transposed = transposed_by_letter(b_letter);
    int64_t bad = bad_argument(a_transposed, b_transposed, given);
    if (bad) report_argument(gemm_names[type], bad, wide);
    else multiply(type, a_transposed, b_transposed, given);
}

static void cblas_gemm(enum blas_type type, bool wide, int order, int a_number, int b_number,
                       const struct matrices *given) {
    int a_transposed = transposed_by_number(a_number), b_transposed = transposed_by_number(b_number);
    const char *name = cblas_gemm_names[type];
    struct matrices matrices = *given;
    if (order != ROW_MAJOR && order != COLUMN_MAJOR) {
        report_cblas_choice(name, 1, "Illegal layout setting, %d\n", order, wide);
        return;
    }
    if (a_transposed == NO_CHOICE || b_transposed == NO_CHOICE) {
        bool first = a_transposed == NO_CHOICE;
        report_cblas_choice(name, first ? 2 : 3,
                            first ? "Illegal TransA setting, %d\n" : "Illegal TransB setting, %d\n",
                            first ? a_number : b_number, wide);
        return;
    }
    if (order == ROW_MAJOR) { /* the transposed product, of transposed matrices */
        matrices.m = given->n, matrices.n = given->m;
        matrices.a = given->b, matrices.b = given->a;
        matrices.a_stride = given->b_stride, matrices.b_stride = given->a_stride;
        int transposed = a_transposed;
        a_transposed = b_transposed, b_transposed = transposed;
    }
    int64_t bad = bad_argument(a_transposed, b_transposed, &matrices);
    if (bad) report_cblas_argument(name, bad, order == ROW_MAJOR, wide);
    else multiply(type, a_transposed, b_transposed, &matrices);
}

/* Calls the next BLAS where this processor lacks instructions. */
#define FORWARD(symbol, ...)                                                    \
    if (__builtin_expect(!has_base_instructions(), 0)) {                        \
        __typeof__(symbol) *next = (__typeof__(symbol) *)next_routine(#symbol); \
        next(__VA_ARGS__);                                                      \
        return;                                                                 \
    }

#define FORTRAN_GEMM(symbol, type, real, field, integer)                                                            \
    BLAS_EXPORT void symbol(const char *transa, const char *transb, const integer *m, const integer *n,             \
                            const integer *k, const real *alpha, const real *a, const integer *lda, const real *b,  \
                            const integer *ldb, const real *beta, real *c, const integer *ldc);                     \
    void symbol(const char *transa, const char *transb, const integer *m, const integer *n, const integer *k,       \
                const real *alpha, const real *a, const integer *lda, const real *b, const integer *ldb,            \
                const real *beta, real *c, const integer *ldc) {                                                    \
        FORWARD(symbol, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)                               \
        const struct matrices given = {*m, *n, *k, *lda, *ldb, *ldc, a, b, c, {.field = *alpha}, {.field = *beta}}; \
        gemm(type, sizeof(integer) == sizeof(int64_t), *transa, *transb, &given);                                   \
    }

#define CBLAS_GEMM(symbol, type, real, field, integer)                                                                \
    BLAS_EXPORT void symbol(int order, int transa, int transb, integer m, integer n, integer k, real alpha,           \
                            const real *a, integer lda, const real *b, integer ldb, real beta, real *c, integer ldc); \
    void symbol(int order, int transa, int transb, integer m, integer n, integer k, real alpha, const real *a,        \
                integer lda, const real *b, integer ldb, real beta, real *c, integer ldc) {                           \
        FORWARD(symbol, order, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)                          \
        const struct matrices given = {m, n, k, lda, ldb, ldc, a, b, c, {.field = alpha}, {.field = beta}};           \
        cblas_gemm(type, sizeof(integer) == sizeof(int64_t), order, transa, transb, &given);                          \
    }

#define GEMM_ENTRIES(letter, type, real, field)                         \
    FORTRAN_GEMM(letter##gemm_, type, real, field, blas_int)            \
    FORTRAN_GEMM(scipy_##letter##gemm_, type, real, field, blas_int)    \
    FORTRAN_GEMM(letter##gemm_64_, type, real, field, int64_t)          \
    FORTRAN_GEMM(scipy_##letter##gemm_64_, type, real, field, int64_t)  \
    CBLAS_GEMM(cblas_##letter##gemm, type, real, field, blas_int)       \
    CBLAS_GEMM(scipy_cblas_##letter##gemm, type, real, field, blas_int) \
    CBLAS_GEMM(cblas_##letter##gemm_64, type, real, field, int64_t)     \
    CBLAS_GEMM(cblas_##letter##gemm64_, type, real, field, int64_t)     \
    CBLAS_GEMM(scipy_cblas_##letter##gemm64_, type, real, field, int64_t)

GEMM_ENTRIES(s, BLAS_F32, float, f32)
GEMM_ENTRIES(d, BLAS_F64, double, f64)
