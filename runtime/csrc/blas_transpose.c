/* Transposes lines in registers, a block at a time. */
#include "blas_transpose.h"

#include <string.h>

#include "blas_panels.h"
#include "internal.h"

/* All code of this file runs only after the check for AVX2, as that of blas_pack.c. */
#if defined(__clang__) && defined(__x86_64__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#endif

/* Elements may be groups of two or four bf16, with their alignment. */
typedef float f32x4 __attribute__((vector_size(16), aligned(2)));
typedef float f32x8 __attribute__((vector_size(32), aligned(2)));
typedef double f64x2 __attribute__((vector_size(16), aligned(2)));
typedef double f64x4 __attribute__((vector_size(32), aligned(2)));

enum { FETCHED_BYTES = 64 }; /* bytes that one prefetch brings: a cache line */

static inline f32x8 two_of_f32(const char *low, const char *high) {
    f32x4 a = *(const f32x4 *)low, b = *(const f32x4 *)high;
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
}

static inline f64x4 two_of_f64(const char *low, const char *high) {
    f64x2 a = *(const f64x2 *)low, b = *(const f64x2 *)high;
    return __builtin_shufflevector(a, b, 0, 1, 2, 3);
}

/* Transpose 8 lines of 4 terms. */
static inline void transpose_f32(char *to, int64_t to_stride, const char *from, int64_t from_stride) {
    const char *other = from + 4 * from_stride;
    f32x8 a = two_of_f32(from, other), b = two_of_f32(from + from_stride, other + from_stride);
    f32x8 c = two_of_f32(from + 2 * from_stride, other + 2 * from_stride);
    f32x8 d = two_of_f32(from + 3 * from_stride, other + 3 * from_stride);
    f32x8 ab_low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
    f32x8 ab_high = __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
    f32x8 cd_low = __builtin_shufflevector(c, d, 0, 8, 1, 9, 4, 12, 5, 13);
    f32x8 cd_high = __builtin_shufflevector(c, d, 2, 10, 3, 11, 6, 14, 7, 15);
    *(f32x8 *)to = __builtin_shufflevector(ab_low, cd_low, 0, 1, 8, 9, 4, 5, 12, 13);
    *(f32x8 *)(to + to_stride) = __builtin_shufflevector(ab_low, cd_low, 2, 3, 10, 11, 6, 7, 14, 15);
    *(f32x8 *)(to + 2 * to_stride) = __builtin_shufflevector(ab_high, cd_high, 0, 1, 8, 9, 4, 5, 12, 13);
    *(f32x8 *)(to + 3 * to_stride) = __builtin_shufflevector(ab_high, cd_high, 2, 3, 10, 11, 6, 7, 14, 15);
}

/* Transpose 4 lines of 2 terms. */
static inline void transpose_f64(char *to, int64_t to_stride, const char *from, int64_t from_stride) {
    f64x4 a = two_of_f64(from, from + 2 * from_stride);
    f64x4 b = two_of_f64(from + from_stride, from + 3 * from_stride);
    *(f64x4 *)to = __builtin_shufflevector(a, b, 0, 4, 2, 6);
    *(f64x4 *)(to + to_stride) = __builtin_shufflevector(a, b, 1, 5, 3, 7);
}

static inline void transpose_f32_few(char *to, int64_t to_stride, const char *from, int64_t from_stride) {
    f32x4 a = *(const f32x4 *)from, b = *(const f32x4 *)(from + from_stride);
    f32x4 c = *(const f32x4 *)(from + 2 * from_stride), d = *(const f32x4 *)(from + 3 * from_stride);
    f32x4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    f32x4 cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(f32x4 *)to = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
    *(f32x4 *)(to + to_stride) = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
    *(f32x4 *)(to + 2 * to_stride) = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
    *(f32x4 *)(to + 3 * to_stride) = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
}

static inline void transpose_f64_few(char *to, int64_t to_stride, const char *from, int64_t from_stride) {
    f64x2 a = *(const f64x2 *)from, b = *(const f64x2 *)(from + from_stride);
    *(f64x2 *)to = __builtin_shufflevector(a, b, 0, 2);
    *(f64x2 *)(to + to_stride) = __builtin_shufflevector(a, b, 1, 3);
}

/* Transpose lines first to last - 1 of a panel from term first_term on, element by element. */
static void transpose_rest(const struct blas_panels *panels, char *to, const char *from, int64_t width, int64_t first,
                           int64_t last, int64_t first_term) {
    const size_t item = (size_t)panels->item;
    for (int64_t term = first_term; term < panels->terms; term++)
        for (int64_t line = first; line < last; line++) {
            char *place = to + (term * width + line) * panels->item;
            const char *source = from + line * panels->line_stride + term * panels->item;
            if (item == sizeof(float)) memcpy(place, source, sizeof(float));
            else memcpy(place, source, sizeof(double));
        }
}

/* A panel is transposed a range of terms at a time, since source lines at a power-of-two stride may map to few sets of
 * the level-1 cache: the written range stays in the cache until all lines are done, and each cache line that is read is
 * used completely at once. */
enum { TRANSPOSED_BYTES = 8 << 10, LEAST_TRANSPOSED_TERMS = 16 };

/* Transpose terms first to last - 1 of all lines that fill whole register blocks. Returns the number of these lines.
 * `next`: offset of the next panel's lines, whose cache lines are prefetched. */
static int64_t transpose_blocks(const struct blas_panels *panels, char *to, const char *from, int64_t used,
                                int64_t stride, int64_t first, int64_t last) {
    const int64_t step = panels->item, next = panels->width * panels->line_stride;
    const int64_t many = 2 * (16 / step), few = 16 / step, line_terms = FETCHED_BYTES / step;
    int64_t line = 0;
    for (; line + many <= used; line += many) {
        const char *source = from + line * panels->line_stride;
        char *place = to + line * step;
        for (int64_t begin = first; begin < last; begin += line_terms) {
            const int64_t end = at_most(begin + line_terms, last);
            for (int64_t i = 0; i < many; i++)
                __builtin_prefetch(source + next + i * panels->line_stride + begin * step);
            if (step == sizeof(float))
                for (int64_t term = begin; term < end; term += 4)
                    transpose_f32(place + term * stride, stride, source + term * step, panels->line_stride);
            else
                for (int64_t term = begin; term < end; term += 2)
                    transpose_f64(place + term * stride, stride, source + term * step, panels->line_stride);
        }
    }
    for (; line + few <= used; line += few) {
        const char *source = from + line * panels->line_stride;
        char *place = to + line * step;
        if (step == sizeof(float))
            for (int64_t term = first; term < last; term += 4)
                transpose_f32_few(place + term * stride, stride, source + term * step, panels->line_stride);
        else
            for (int64_t term = first; term < last; term += 2)
                transpose_f64_few(place + term * stride, stride, source + term * step, panels->line_stride);
    }
    return line;
}

MAVCG_PRIVATE void transpose_lines(const struct blas_panels *panels, char *to, const char *from, int64_t used,
                                   int64_t width) {
    const int64_t side = panels->item == sizeof(float) ? 4 : 2, step = panels->item, stride = width * step;
    const int64_t lines = used / side * side, terms = panels->terms / side * side;
    int64_t most = TRANSPOSED_BYTES / stride / LEAST_TRANSPOSED_TERMS * LEAST_TRANSPOSED_TERMS;
    if (most < LEAST_TRANSPOSED_TERMS) most = LEAST_TRANSPOSED_TERMS;
    for (int64_t first = 0; first < terms; first += most)
        transpose_blocks(panels, to, from, used, stride, first, at_most(first + most, terms));
    transpose_rest(panels, to, from, width, 0, lines, terms);
    transpose_rest(panels, to, from, width, lines, used, 0);
}

#if defined(__clang__) && defined(__x86_64__)
#pragma clang attribute pop
#endif
