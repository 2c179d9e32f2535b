/* The doors of a BLAS library, a call of any of them as one value, and what the reference BLAS says of its arguments. */
#ifndef FUZZ_BLAS_DOORS_H
#define FUZZ_BLAS_DOORS_H

#include "guarded.h"

enum { ROW_MAJOR = 101, COLUMN_MAJOR = 102 };
enum type { F32, F64, BF16, F16, ALL_F16 }; /* ALL_F16: C and the scalars, too */

#define GEMM(name, given, real, integer)                                                                      \
    void name##_(const char *, const char *, const integer *, const integer *, const integer *, const real *, \
                 const given *, const integer *, const given *, const integer *, const real *, real *,        \
                 const integer *);
#define CBLAS(name, given, real, integer)                                                                           \
    void name(int, int, int, integer, integer, integer, real, const given *, integer, const given *, integer, real, \
              real *, integer);
#define GEMV(name, real, integer)                                                                             \
    void name##_(const char *, const integer *, const integer *, const real *, const real *, const integer *, \
                 const real *, const integer *, const real *, real *, const integer *);
#define CBLAS_V(name, real, integer) \
    void name(int, int, integer, integer, real, const real *, integer, const real *, integer, real, real *, integer);
GEMM(sgemm, float, float, int32_t)
GEMM(dgemm, double, double, int32_t)
GEMM(sbgemm, uint16_t, float, int32_t)
GEMM(shgemm, uint16_t, float, int32_t)
GEMM(hgemm, uint16_t, uint16_t, int32_t)
GEMM(sgemm_64, float, float, int64_t)
GEMM(dgemm_64, double, double, int64_t)
GEMM(sbgemm_64, uint16_t, float, int64_t)
GEMM(shgemm_64, uint16_t, float, int64_t)
GEMM(hgemm_64, uint16_t, uint16_t, int64_t)
CBLAS(cblas_sgemm, float, float, int32_t)
CBLAS(cblas_dgemm, double, double, int32_t)
CBLAS(cblas_sbgemm, uint16_t, float, int32_t)
CBLAS(cblas_shgemm, uint16_t, float, int32_t)
CBLAS(cblas_hgemm, uint16_t, uint16_t, int32_t)
CBLAS(cblas_sgemm64_, float, float, int64_t)
CBLAS(cblas_dgemm64_, double, double, int64_t)
CBLAS(cblas_sbgemm64_, uint16_t, float, int64_t)
CBLAS(cblas_shgemm64_, uint16_t, float, int64_t)
CBLAS(cblas_hgemm64_, uint16_t, uint16_t, int64_t)
GEMV(sgemv, float, int32_t)
GEMV(dgemv, double, int32_t)
GEMV(sgemv_64, float, int64_t)
GEMV(dgemv_64, double, int64_t)
CBLAS_V(cblas_sgemv, float, int32_t)
CBLAS_V(cblas_dgemv, double, int32_t)
CBLAS_V(cblas_sgemv64_, float, int64_t)
CBLAS_V(cblas_dgemv64_, double, int64_t)

/* The library reports here what is wrong. 0: nothing. */
static int64_t reported;
void xerbla_(const char *routine, const void *argument, size_t characters);
void xerbla_(const char *routine, const void *argument, size_t characters) {
    int32_t number;
    need(routine != NULL && characters == 6);
    memcpy(&number, argument, sizeof number);
    reported = number;
}
void xerbla_64_(const char *routine, const int64_t *argument, size_t characters);
void xerbla_64_(const char *routine, const int64_t *argument, size_t characters) {
    need(routine != NULL && characters == 6);
    reported = *argument;
}
void cblas_xerbla(int argument, const char *routine, const char *form, ...);
void cblas_xerbla(int argument, const char *routine, const char *form, ...) {
    need(routine != NULL && form != NULL);
    reported = argument;
}

struct call {
    enum type type;
    int vector, cblas, wide, order, a_number, b_number;
    char a_letter, b_letter;
    int64_t m, n, k, lda, ldb, ldc; /* of vectors: lda, and in ldb and ldc the increments of x and y */
    double alpha, beta;
};

static int64_t most(int64_t x, int64_t y) { return x > y ? x : y; }

static int transposed(const struct call *call, int second) {
    int number = second ? call->b_number : call->a_number;
    char letter = second ? call->b_letter : call->a_letter;
    if (call->cblas) return number == 111 ? 0 : number == 112 || number == 113 ? 1 : -1;
    switch (letter) {
    case 'n':
    case 'N': return 0;
    case 't':
    case 'T':
    case 'c':
    case 'C': return 1;
    default: return -1;
    }
}

/* The number of the first invalid argument, as the reference BLAS counts; 0 if all are valid. */
static int64_t wrong(const struct call *call) {
    int a_t = transposed(call, 0), b_t = call->vector ? 0 : transposed(call, 1), row = call->order == ROW_MAJOR;
    if (call->cblas) {
        if (!row && call->order != COLUMN_MAJOR) return 1;
        if (a_t < 0) return 2;
        if (b_t < 0) return 3;
    } else {
        if (a_t < 0) return 1;
        if (b_t < 0) return 2;
    }
    /* By rows, the reference computes the transposed product: it looks at N before M, and at B before A. */
    int64_t first = call->cblas ? 1 : 0;
    row = row && call->cblas;
    if (call->vector) {
        if (row && call->n < 0) return first + 3;
        if (call->m < 0) return first + 2;
        if (call->n < 0) return first + 3;
        if (call->lda < most(1, row ? call->n : call->m)) return first + 6;
        if (!call->ldb) return first + 8;
        if (!call->ldc) return first + 11;
        return 0;
    }
    int a_is_short = call->lda < most(1, a_t != row ? call->k : call->m);
    int b_is_short = call->ldb < most(1, b_t != row ? call->n : call->k);
    if (row && call->n < 0) return first + 4;
    if (call->m < 0) return first + 3;
    if (call->n < 0) return first + 4;
    if (call->k < 0) return first + 5;
    if (row && b_is_short) return first + 10;
    if (a_is_short) return first + 8;
    if (b_is_short) return first + 10;
    if (call->ldc < most(1, row ? call->n : call->m)) return first + 13;
    return 0;
}

/* The bits of a scalar of a routine of ALL_F16. */
static uint16_t half_of(double value) {
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    if (single == 0) return 0;
    return (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 0xff) - 112) << 10) | (bits >> 13 & 0x3ff));
}
#define AS_FLOAT(real, value) ((real)(value))
#define AS_HALF(real, value) half_of(value)

#define FORTRAN(door, given, real, integer) FORTRAN_OF(door, given, real, integer, AS_FLOAT)
#define BY_C(door, given, real, integer) BY_C_OF(door, given, real, integer, AS_FLOAT)
#define FORTRAN_OF(door, given, real, integer, as)                                                                     \
    {                                                                                                                  \
        integer m = (integer)s->m, n = (integer)s->n, k = (integer)s->k, lda = (integer)s->lda, ldb = (integer)s->ldb, \
                ldc = (integer)s->ldc;                                                                                 \
        real alpha = as(real, s->alpha), beta = as(real, s->beta);                                                     \
        door(&s->a_letter, &s->b_letter, &m, &n, &k, &alpha, (const given *)pa, &lda, (const given *)pb, &ldb, &beta,  \
             (real *)pc, &ldc);                                                                                        \
    }
#define BY_C_OF(door, given, real, integer, as)                                                                 \
    door(s->order, s->a_number, s->b_number, (integer)s->m, (integer)s->n, (integer)s->k, as(real, s->alpha),   \
         (const given *)pa, (integer)s->lda, (const given *)pb, (integer)s->ldb, as(real, s->beta), (real *)pc, \
         (integer)s->ldc);
#define FORTRAN_V(door, real, integer)                                                                                 \
    {                                                                                                                  \
        integer m = (integer)s->m, n = (integer)s->n, lda = (integer)s->lda, incx = (integer)s->ldb,                   \
                incy = (integer)s->ldc;                                                                                \
        real alpha = (real)s->alpha, beta = (real)s->beta;                                                             \
        door(&s->a_letter, &m, &n, &alpha, (const real *)pa, &lda, (const real *)pb, &incx, &beta, (real *)pc, &incy); \
    }
#define BY_C_V(door, real, integer)                                                                              \
    door(s->order, s->a_number, (integer)s->m, (integer)s->n, (real)s->alpha, (const real *)pa, (integer)s->lda, \
         (const real *)pb, (integer)s->ldb, (real)s->beta, (real *)pc, (integer)s->ldc);

static void call_vector(const struct call *s, const void *pa, const void *pb, void *pc) {
    switch ((s->type == F64) << 2 | s->cblas << 1 | s->wide) {
    case 0: FORTRAN_V(sgemv_, float, int32_t) break;
    case 1: FORTRAN_V(sgemv_64_, float, int64_t) break;
    case 2: BY_C_V(cblas_sgemv, float, int32_t) break;
    case 3: BY_C_V(cblas_sgemv64_, float, int64_t) break;
    case 4: FORTRAN_V(dgemv_, double, int32_t) break;
    case 5: FORTRAN_V(dgemv_64_, double, int64_t) break;
    case 6: BY_C_V(cblas_dgemv, double, int32_t) break;
    default: BY_C_V(cblas_dgemv64_, double, int64_t) break;
    }
}

static void call_product(const struct call *s, const void *pa, const void *pb, void *pc) {
    switch ((int)s->type << 2 | s->cblas << 1 | s->wide) {
    case F32 << 2: FORTRAN(sgemm_, float, float, int32_t) break;
    case F32 << 2 | 1: FORTRAN(sgemm_64_, float, float, int64_t) break;
    case F32 << 2 | 2: BY_C(cblas_sgemm, float, float, int32_t) break;
    case F32 << 2 | 3: BY_C(cblas_sgemm64_, float, float, int64_t) break;
    case F64 << 2: FORTRAN(dgemm_, double, double, int32_t) break;
    case F64 << 2 | 1: FORTRAN(dgemm_64_, double, double, int64_t) break;
    case F64 << 2 | 2: BY_C(cblas_dgemm, double, double, int32_t) break;
    case F64 << 2 | 3: BY_C(cblas_dgemm64_, double, double, int64_t) break;
    case BF16 << 2: FORTRAN(sbgemm_, uint16_t, float, int32_t) break;
    case BF16 << 2 | 1: FORTRAN(sbgemm_64_, uint16_t, float, int64_t) break;
    case BF16 << 2 | 2: BY_C(cblas_sbgemm, uint16_t, float, int32_t) break;
    case BF16 << 2 | 3: BY_C(cblas_sbgemm64_, uint16_t, float, int64_t) break;
    case F16 << 2: FORTRAN(shgemm_, uint16_t, float, int32_t) break;
    case F16 << 2 | 1: FORTRAN(shgemm_64_, uint16_t, float, int64_t) break;
    case F16 << 2 | 2: BY_C(cblas_shgemm, uint16_t, float, int32_t) break;
    case F16 << 2 | 3: BY_C(cblas_shgemm64_, uint16_t, float, int64_t) break;
    case ALL_F16 << 2: FORTRAN_OF(hgemm_, uint16_t, uint16_t, int32_t, AS_HALF) break;
    case ALL_F16 << 2 | 1: FORTRAN_OF(hgemm_64_, uint16_t, uint16_t, int64_t, AS_HALF) break;
    case ALL_F16 << 2 | 2: BY_C_OF(cblas_hgemm, uint16_t, uint16_t, int32_t, AS_HALF) break;
    default: BY_C_OF(cblas_hgemm64_, uint16_t, uint16_t, int64_t, AS_HALF) break;
    }
}

#endif
