/* Defines the exported routines: they check arguments as the reference BLAS does, convert strides to bytes, and
 * exchange A and B for row-major calls.
 *
 * Names: sgemm_ and cblas_sgemm take integers of type BLAS_INT (32 bits, or 64 in a library built with --ilp64). Names
 * with 64_ or _64 always take 64-bit integers: sgemm_64_ (reference since 3.11, OpenBLAS, MKL), cblas_sgemm_64
 * (reference, MKL), cblas_sgemm64_ (OpenBLAS). The prefix scipy_ is that of the OpenBLAS in NumPy's and SciPy's
 * wheels. */
#include <stdbool.h>
#include <stdint.h>

#include "blas.h"
#include "blas_errors.h"
#include "blas_f16.h"
#include "blas_next.h"
#include "blas_product.h"
#include "blas_tiles.h"
#include "blas_vector.h"
#include "internal.h"

#if defined(BLAS_ILP64)
typedef int64_t blas_int;
#else
typedef int32_t blas_int;
#endif

enum { ROW_MAJOR = 101, COLUMN_MAJOR = 102, NOT_TRANSPOSED = 111, TRANSPOSED = 112, CONJUGATE_TRANSPOSED = 113 };
enum { NO_CHOICE = -1 };

static const char *const gemv_names[] = {"SGEMV ", "DGEMV "}, *const cblas_gemv_names[] = {"cblas_sgemv",
                                                                                           "cblas_dgemv"};
/* By enum blas_type. */
static const char *const gemm_names[] = {"SGEMM ", "DGEMM ", "SBGEMM", "SHGEMM", "HGEMM "};
static const char *const cblas_gemm_names[] = {"cblas_sgemm", "cblas_dgemm", "cblas_sbgemm", "cblas_shgemm",
                                               "cblas_hgemm"};

/* Return 0 (not transposed) or 1 (transposed) for a letter of the Fortran interface, NO_CHOICE for an invalid
 * letter. */
BLAS_INLINE int transposed_by_letter(char letter) {
    const int upper = letter & ~('a' ^ 'A');
    if (upper == 'N') return 0;
    return upper == 'T' || upper == 'C' ? 1 : NO_CHOICE;
}

BLAS_INLINE int transposed_by_number(int number) {
    if (number == NOT_TRANSPOSED) return 0;
    return number == TRANSPOSED || number == CONJUGATE_TRANSPOSED ? 1 : NO_CHOICE;
}

static int64_t at_least_one(int64_t value) { return value > 1 ? value : 1; }

/* Convert a stride to bytes. The product may not be representable: then the caller's array has a single row or column,
 * or cannot exist. The result is that of two's complement, which no routine uses for a single one. */
BLAS_INLINE int64_t in_bytes(int64_t stride, int64_t item) { return (int64_t)((uint64_t)stride * (uint64_t)item); }

/* Return the stride, in bytes, of `count` rows, columns or elements; one without a second has any: that of `length`
 * contiguous elements. */
static int64_t stride_bytes(int64_t stride, int64_t item, int64_t count, int64_t length) {
    return in_bytes(count > 1 ? stride : at_least_one(length), item);
}

/* Return the number of the first invalid argument of the Fortran routine, or 0 if all are valid. Strides are still in
 * elements. */
static int64_t bad_argument(int a_transposed, int b_transposed, const struct blas_product *given) {
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

/* Compute a small column-major product if all arguments are valid and A is not transposed; return false without any
 * effect otherwise. This check comes first: the arguments are still in registers, and a small product takes only as
 * long as a few checks. Leading dimensions are in elements. */
BLAS_INLINE bool multiplies_small(enum blas_type type, int a_transposed, int b_transposed, int64_t m, int64_t n,
                                  int64_t k, union blas_scalar alpha, const void *a, int64_t lda, const void *b,
                                  int64_t ldb, union blas_scalar beta, void *c, int64_t ldc) {
    const struct blas_blocks *blocks = &blocks_table[type];
    if (is_half(type)) return false; /* these are always packed */
    if (a_transposed || b_transposed == NO_CHOICE || !is_small_product(blocks, m, n, k) || !reads_rows(blocks, m))
        return false;
    if (lda < m || ldb < (b_transposed ? n : k) || ldc < m) return false;
    if (type == BLAS_F32 ? alpha.f32 == 0 : alpha.f64 == 0) return false;
    multiply_small(type, b_transposed, m, n, k, alpha, a, in_bytes(lda, blocks->item), b, in_bytes(ldb, blocks->item),
                   beta, c, in_bytes(ldc, blocks->item));
    return true;
}

/* Complete a product whose arguments are valid, and compute it. */
static void compute_valid(struct blas_product *product, bool a_transposed, bool b_transposed) {
    const int64_t given = blocks_table[product->type].given_item;
    int64_t m = product->m, n = product->n, k = product->k;
    product->a_transposed = a_transposed;
    product->b_transposed = b_transposed;
    product->a_stride = stride_bytes(product->a_stride, given, a_transposed ? m : k, a_transposed ? k : m);
    product->b_stride = stride_bytes(product->b_stride, given, b_transposed ? k : n, b_transposed ? n : k);
    const int64_t item = product->type == BLAS_ALL_F16 ? given : blocks_table[product->type].item;
    product->c_stride = stride_bytes(product->c_stride, item, n, m);
    if (product->type == BLAS_ALL_F16) compute_f16_product(product);
    else compute_product(product);
}

/* Check and compute a product. Entries fill in `product`, with strides in elements, and it is completed in place: copying the freshly
 * written structure with wider moves than it was written by took as long as a product of 4 x 4 x 4. */
static void gemm(struct blas_product *product, bool wide, char a_letter, char b_letter) {
    int a_transposed = transposed_by_letter(a_letter), b_transposed = transposed_by_letter(b_letter);
    int64_t bad = bad_argument(a_transposed, b_transposed, product);
    if (bad) {
        report_argument(gemm_names[product->type], bad, wide);
        return;
    }
    compute_valid(product, a_transposed, b_transposed);
}

static void exchange_matrices(struct blas_product *product) {
    int64_t rows = product->m, stride = product->a_stride;
    const char *a = product->a;
    product->m = product->n, product->n = rows;
    product->a_stride = product->b_stride, product->b_stride = stride;
    product->a = product->b, product->b = a;
}

static void cblas_gemm(struct blas_product *product, bool wide, int order, int a_number, int b_number) {
    int a_transposed = transposed_by_number(a_number), b_transposed = transposed_by_number(b_number);
    const char *name = cblas_gemm_names[product->type];
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
    if (order == ROW_MAJOR) { /* compute the transposed product, of the transposed matrices */
        exchange_matrices(product);
        int transposed = a_transposed;
        a_transposed = b_transposed, b_transposed = transposed;
    }
    int64_t bad = bad_argument(a_transposed, b_transposed, product);
    if (bad) {
        report_cblas_argument(name, bad, order == ROW_MAJOR, wide);
        return;
    }
    compute_valid(product, a_transposed, b_transposed);
}

struct matrix_and_vectors {
    int64_t m, n, a_stride, x_stride, y_stride; /* strides in elements */
    const void *a, *x;
    void *y;
    union blas_scalar alpha, beta;
};

static int64_t bad_vector_argument(int transposed, const struct matrix_and_vectors *given) {
    if (transposed == NO_CHOICE) return 1;
    if (given->m < 0) return 2;
    if (given->n < 0) return 3;
    if (given->a_stride < at_least_one(given->m)) return 6;
    if (!given->x_stride) return 8;
    if (!given->y_stride) return 11;
    return 0;
}

/* Return the position, in bytes, of the first element that BLAS accesses: with a negative stride it starts at the
 * array's far end. */
static int64_t first_element(int64_t count, int64_t stride) { return stride < 0 ? in_bytes(1 - count, stride) : 0; }

static void multiply_vector(enum blas_type type, int transposed, const struct matrix_and_vectors *given) {
    const int64_t item = blocks_table[type].item;
    const int64_t x_count = transposed ? given->m : given->n, y_count = transposed ? given->n : given->m;
    const int64_t x_stride = stride_bytes(given->x_stride, item, x_count, 1);
    const int64_t y_stride = stride_bytes(given->y_stride, item, y_count, 1);
    const struct blas_vector_call call = {
        .type = type,
        .transposed = transposed,
        .m = given->m,
        .n = given->n,
        .a_stride = stride_bytes(given->a_stride, item, given->n, given->m),
        .x_stride = x_stride,
        .y_stride = y_stride,
        .a = given->a,
        .x = (const char *)given->x + first_element(x_count, x_stride),
        .y = (char *)given->y + first_element(y_count, y_stride),
        .alpha = given->alpha,
        .beta = given->beta,
    };
    compute_vector_product(&call);
}

static void gemv(enum blas_type type, bool wide, char letter, const struct matrix_and_vectors *given) {
    int transposed = transposed_by_letter(letter);
    int64_t bad = bad_vector_argument(transposed, given);
    if (bad) report_argument(gemv_names[type], bad, wide);
    else multiply_vector(type, transposed, given);
}

static void cblas_gemv(enum blas_type type, bool wide, int order, int number, const struct matrix_and_vectors *given) {
    int transposed = transposed_by_number(number);
    const char *name = cblas_gemv_names[type];
    struct matrix_and_vectors call = *given;
    if (order != ROW_MAJOR && order != COLUMN_MAJOR) {
        report_cblas_choice(name, 1, "Illegal layout setting, %d\n", order, wide);
        return;
    }
    if (transposed == NO_CHOICE) {
        report_cblas_choice(name, 2, "Illegal TransA setting, %d\n", number, wide);
        return;
    }
    if (order == ROW_MAJOR) {
        call.m = given->n, call.n = given->m;
        transposed = !transposed;
    }
    int64_t bad = bad_vector_argument(transposed, &call);
    if (bad) report_cblas_argument(name, bad, order == ROW_MAJOR, wide);
    else multiply_vector(type, transposed, &call);
}

/* Calls the next BLAS if this processor lacks required instructions. */
#define FORWARD(symbol, ...)                                                    \
    if (__builtin_expect(!has_base_instructions(), 0)) {                        \
        __typeof__(symbol) *next = (__typeof__(symbol) *)next_routine(#symbol); \
        next(__VA_ARGS__);                                                      \
        return;                                                                 \
    }

/* Arguments of these macros are names and types, which cannot be put in parentheses.
 * NOLINTBEGIN(bugprone-macro-parentheses) */
#define PRODUCT_OF(type, field, m, n, k, lda, ldb, ldc, alpha, beta)                                           \
    {                                                                                                          \
        (type), false, false, (m), (n), (k), (lda), (ldb), (ldc), (const char *)a, (const char *)b, (char *)c, \
            {.field = (alpha)}, {                                                                              \
            .field = (beta)                                                                                    \
        }                                                                                                      \
    }

/* name##_at_first runs until the processor's instruction sets have been checked, and always if they do not suffice. */
#define FORTRAN_GEMM(symbol, type, given, real, field, integer)                                                      \
    BLAS_EXPORT void symbol(const char *transa, const char *transb, const integer *m, const integer *n,              \
                            const integer *k, const real *alpha, const given *a, const integer *lda, const given *b, \
                            const integer *ldb, const real *beta, real *c, const integer *ldc);                      \
    __attribute__((noinline)) static void symbol##_at_first(                                                         \
        const char *transa, const char *transb, const integer *m, const integer *n, const integer *k,                \
        const real *alpha, const given *a, const integer *lda, const given *b, const integer *ldb, const real *beta, \
        real *c, const integer *ldc) {                                                                               \
        FORWARD(symbol, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)                                \
        symbol(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                                        \
    }                                                                                                                \
    void symbol(const char *transa, const char *transb, const integer *m, const integer *n, const integer *k,        \
                const real *alpha, const given *a, const integer *lda, const given *b, const integer *ldb,           \
                const real *beta, real *c, const integer *ldc) {                                                     \
        if (!known_to_suffice()) {                                                                                   \
            symbol##_at_first(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                         \
            return;                                                                                                  \
        }                                                                                                            \
        if (multiplies_small(type, transposed_by_letter(*transa), transposed_by_letter(*transb), *m, *n, *k,         \
                             (union blas_scalar){.field = *alpha}, a, *lda, b, *ldb,                                 \
                             (union blas_scalar){.field = *beta}, c, *ldc))                                          \
            return;                                                                                                  \
        struct blas_product product = PRODUCT_OF(type, field, *m, *n, *k, *lda, *ldb, *ldc, *alpha, *beta);          \
        gemm(&product, sizeof(integer) == sizeof(int64_t), *transa, *transb);                                        \
    }

#define CBLAS_GEMM(symbol, type, given, real, field, integer)                                                          \
    BLAS_EXPORT void symbol(int order, int transa, int transb, integer m, integer n, integer k, real alpha,            \
                            const given *a, integer lda, const given *b, integer ldb, real beta, real *c,              \
                            integer ldc);                                                                              \
    __attribute__((noinline)) static void symbol##_at_first(                                                           \
        int order, int transa, int transb, integer m, integer n, integer k, real alpha, const given *a, integer lda,   \
        const given *b, integer ldb, real beta, real *c, integer ldc) {                                                \
        FORWARD(symbol, order, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)                           \
        symbol(order, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                                   \
    }                                                                                                                  \
    void symbol(int order, int transa, int transb, integer m, integer n, integer k, real alpha, const given *a,        \
                integer lda, const given *b, integer ldb, real beta, real *c, integer ldc) {                           \
        if (!known_to_suffice()) {                                                                                     \
            symbol##_at_first(order, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                    \
            return;                                                                                                    \
        }                                                                                                              \
        const int a_transposed = transposed_by_number(transa), b_transposed = transposed_by_number(transb);            \
        const union blas_scalar factor = {.field = alpha}, other = {.field = beta};                                    \
        if (order == COLUMN_MAJOR                                                                                      \
                ? multiplies_small(type, a_transposed, b_transposed, m, n, k, factor, a, lda, b, ldb, other, c, ldc)   \
                : order == ROW_MAJOR && multiplies_small(type, b_transposed, a_transposed, n, m, k, factor, b, ldb, a, \
                                                         lda, other, c, ldc))                                          \
            return;                                                                                                    \
        struct blas_product product = PRODUCT_OF(type, field, m, n, k, lda, ldb, ldc, alpha, beta);                    \
        cblas_gemm(&product, sizeof(integer) == sizeof(int64_t), order, transa, transb);                               \
    }

#define FORTRAN_GEMV(symbol, type, real, field, integer)                                                             \
    BLAS_EXPORT void symbol(const char *trans, const integer *m, const integer *n, const real *alpha, const real *a, \
                            const integer *lda, const real *x, const integer *incx, const real *beta, real *y,       \
                            const integer *incy);                                                                    \
    void symbol(const char *trans, const integer *m, const integer *n, const real *alpha, const real *a,             \
                const integer *lda, const real *x, const integer *incx, const real *beta, real *y,                   \
                const integer *incy) {                                                                               \
        FORWARD(symbol, trans, m, n, alpha, a, lda, x, incx, beta, y, incy)                                          \
        const struct matrix_and_vectors given = {                                                                    \
            *m, *n, *lda, *incx, *incy, a, x, y, {.field = *alpha}, {.field = *beta}};                               \
        gemv(type, sizeof(integer) == sizeof(int64_t), *trans, &given);                                              \
    }

#define CBLAS_GEMV(symbol, type, real, field, integer)                                                               \
    BLAS_EXPORT void symbol(int order, int trans, integer m, integer n, real alpha, const real *a, integer lda,      \
                            const real *x, integer incx, real beta, real *y, integer incy);                          \
    void symbol(int order, int trans, integer m, integer n, real alpha, const real *a, integer lda, const real *x,   \
                integer incx, real beta, real *y, integer incy) {                                                    \
        FORWARD(symbol, order, trans, m, n, alpha, a, lda, x, incx, beta, y, incy)                                   \
        const struct matrix_and_vectors given = {m, n, lda, incx, incy, a, x, y, {.field = alpha}, {.field = beta}}; \
        cblas_gemv(type, sizeof(integer) == sizeof(int64_t), order, trans, &given);                                  \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

/* The names of OpenBLAS for routines that the reference, NumPy and SciPy have not. */
#define OPENBLAS_NAMES(routine, type, given, real, field)           \
    FORTRAN_GEMM(routine##_, type, given, real, field, blas_int)    \
    FORTRAN_GEMM(routine##_64_, type, given, real, field, int64_t)  \
    CBLAS_GEMM(cblas_##routine, type, given, real, field, blas_int) \
    CBLAS_GEMM(cblas_##routine##64_, type, given, real, field, int64_t)

/* Defines a routine under all of its names; FORTRAN and CBLAS are a pair of the macros above. */
#define ALL_NAMES(FORTRAN, CBLAS, routine, type, real, field)  \
    FORTRAN(routine##_, type, real, field, blas_int)           \
    FORTRAN(scipy_##routine##_, type, real, field, blas_int)   \
    FORTRAN(routine##_64_, type, real, field, int64_t)         \
    FORTRAN(scipy_##routine##_64_, type, real, field, int64_t) \
    CBLAS(cblas_##routine, type, real, field, blas_int)        \
    CBLAS(scipy_cblas_##routine, type, real, field, blas_int)  \
    CBLAS(cblas_##routine##_64, type, real, field, int64_t)    \
    CBLAS(cblas_##routine##64_, type, real, field, int64_t)    \
    CBLAS(scipy_cblas_##routine##64_, type, real, field, int64_t)

#define FORTRAN_GEMM_OF_ONE(symbol, type, real, field, integer) FORTRAN_GEMM(symbol, type, real, real, field, integer)
#define CBLAS_GEMM_OF_ONE(symbol, type, real, field, integer) CBLAS_GEMM(symbol, type, real, real, field, integer)

ALL_NAMES(FORTRAN_GEMM_OF_ONE, CBLAS_GEMM_OF_ONE, sgemm, BLAS_F32, float, f32)
ALL_NAMES(FORTRAN_GEMM_OF_ONE, CBLAS_GEMM_OF_ONE, dgemm, BLAS_F64, double, f64)
OPENBLAS_NAMES(sbgemm, BLAS_BF16, uint16_t, float, f32) /* bits of bfloat16 */
OPENBLAS_NAMES(shgemm, BLAS_F16, uint16_t, float, f32)  /* bits of IEEE 754 binary16 */
OPENBLAS_NAMES(hgemm, BLAS_ALL_F16, uint16_t, uint16_t, f16)
ALL_NAMES(FORTRAN_GEMV, CBLAS_GEMV, sgemv, BLAS_F32, float, f32)
ALL_NAMES(FORTRAN_GEMV, CBLAS_GEMV, dgemv, BLAS_F64, double, f64)
