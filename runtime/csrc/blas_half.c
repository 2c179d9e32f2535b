/* Packs panels of bf16 and f16, and rounds sums to f16. */
#include "blas_half.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "blas.h"
#include "blas_panels.h"
#include "blas_transpose.h"
#include "internal.h"

/* All code of this file runs only after the check for AVX2 and F16C, as that of blas_pack.c. */
#if defined(__clang__) && defined(__x86_64__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#endif

typedef float f32_group __attribute__((vector_size(32), aligned(4)));
typedef uint16_t half_group __attribute__((vector_size(16), aligned(2)));
typedef uint16_t half_few __attribute__((vector_size(8), aligned(2)));
typedef uint16_t pair_group __attribute__((vector_size(32), aligned(4)));
typedef uint16_t pair_few __attribute__((vector_size(16), aligned(4)));
typedef uint32_t bits_group __attribute__((vector_size(32), aligned(4)));

/* GROUP, FEW: lines whose terms are grouped at once. RUN_TERMS: terms that are converted before they are transposed. */
enum { GROUP = 8, FEW = 4, RUN_TERMS = 16 };

#if defined(__x86_64__)
static inline f32_group f32_of_f16(half_group halves) { return (f32_group)_mm256_cvtph_ps((__m128i)halves); }

static inline half_group f16_of_f32(f32_group values) {
    return (half_group)_mm256_cvtps_ph((__m256)values, _MM_FROUND_CUR_DIRECTION);
}
#else
typedef _Float16 f16_group __attribute__((vector_size(16)));

static inline f32_group f32_of_f16(half_group halves) { return __builtin_convertvector((f16_group)halves, f32_group); }

static inline half_group f16_of_f32(f32_group values) {
    return (half_group) __builtin_convertvector(values, f16_group);
}
#endif

/* Convert GROUP elements of bf16 or f16 to f32; bf16 is the upper half of an f32. */
static inline f32_group f32_of(enum blas_type type, half_group halves) {
    if (type != BLAS_BF16) return f32_of_f16(halves);
    return (f32_group)(__builtin_convertvector(halves, bits_group) << 16);
}

static inline uint16_t half_at(const char *from) {
    uint16_t half;
    memcpy(&half, from, sizeof half);
    return half;
}

/* Convert contiguous elements of bf16 or f16 to f32. */
static inline void convert_run(enum blas_type type, float *to, const char *from, int64_t count) {
    int64_t i = 0;
    for (; i + GROUP <= count; i += GROUP)
        *(f32_group *)(to + i) = f32_of(type, *(const half_group *)(from + i * (int64_t)sizeof(uint16_t)));
    if (i < count) {
        half_group last = {0};
        memcpy(&last, from + i * (int64_t)sizeof(uint16_t), (size_t)(count - i) * sizeof(uint16_t));
        const f32_group converted = f32_of(type, last);
        memcpy(to + i, &converted, (size_t)(count - i) * sizeof(float));
    }
}

/* Convert a panel whose source has contiguous lines (of a term) or contiguous terms (of a line). */
static inline void convert_panel(enum blas_type type, const struct blas_panels *panels, char *to, const char *from,
                                 int64_t used, int64_t width) {
    const int64_t stride = width * panels->item;
    if (panels->line_stride == (int64_t)sizeof(uint16_t)) {
        for (int64_t term = 0; term < panels->terms; term++)
            convert_run(type, (float *)(to + term * stride), from + term * panels->term_stride, used);
        return;
    }
    float run[GROUP][RUN_TERMS];
    struct blas_panels runs = {.item = panels->item, .line_stride = sizeof run[0]};
    for (int64_t line = 0; line < used; line += GROUP) {
        const int64_t lines = used - line < GROUP ? used - line : GROUP;
        for (int64_t term = 0; term < panels->terms; term += RUN_TERMS) {
            runs.terms = panels->terms - term < RUN_TERMS ? panels->terms - term : RUN_TERMS;
            for (int64_t i = 0; i < lines; i++)
                convert_run(type, run[i], from + (line + i) * panels->line_stride + term * (int64_t)sizeof(uint16_t),
                            runs.terms);
            transpose_lines(&runs, to + term * stride + line * panels->item, (const char *)run, lines, width);
        }
    }
}

/* Store the elements of lines, in groups of their first `terms` terms, with 0 for the others up to `group`. */
static inline void group_lines(char *to, const char *from, const struct blas_panels *panels, int64_t group,
                               int64_t terms, int64_t first, int64_t last) {
    for (int64_t line = first; line < last; line++)
        for (int64_t term = 0; term < group; term++) {
            const char *element = from + line * panels->line_stride + term * panels->term_stride;
            const uint16_t half = term < terms ? half_at(element) : 0;
            memcpy(to + (line * group + term) * (int64_t)sizeof half, &half, sizeof half);
        }
}

/* Store pairs of the contiguous elements of two terms; returns the number of lines done. */
static inline int64_t pair_terms(char *to, const char *from, int64_t term_stride, int64_t count) {
    int64_t i = 0;
    for (; i + GROUP <= count; i += GROUP) {
        const char *source = from + 2 * i;
        const half_group a = *(const half_group *)source, b = *(const half_group *)(source + term_stride);
        *(pair_group *)(to + 4 * i) = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7,
                                                              15);
    }
    for (; i + FEW <= count; i += FEW) {
        const char *source = from + 2 * i;
        const half_few a = *(const half_few *)source, b = *(const half_few *)(source + term_stride);
        *(pair_few *)(to + 4 * i) = __builtin_shufflevector(a, b, 0, 4, 1, 5, 2, 6, 3, 7);
    }
    return i;
}

/* The same for four terms. */
static inline int64_t quad_terms(char *to, const char *from, int64_t term_stride, int64_t count) {
    int64_t i = 0;
    for (; i + FEW <= count; i += FEW) {
        const char *source = from + 2 * i;
        const half_few a = *(const half_few *)source, b = *(const half_few *)(source + term_stride);
        const half_few c = *(const half_few *)(source + 2 * term_stride);
        const half_few d = *(const half_few *)(source + 3 * term_stride);
        const pair_few ab = __builtin_shufflevector(a, b, 0, 4, 1, 5, 2, 6, 3, 7);
        const pair_few cd = __builtin_shufflevector(c, d, 0, 4, 1, 5, 2, 6, 3, 7);
        *(pair_few *)(to + 8 * i) = __builtin_shufflevector(ab, cd, 0, 1, 8, 9, 2, 3, 10, 11);
        *(pair_few *)(to + 8 * i + 16) = __builtin_shufflevector(ab, cd, 4, 5, 12, 13, 6, 7, 14, 15);
    }
    return i;
}

/* Pack a panel in groups of terms, 2 or 4: terms that are contiguous already lie as groups, and are transposed as f32
 * or f64 is. */
static void group_panel(const struct blas_panels *panels, char *to, const char *from, int64_t used, int64_t width) {
    const int64_t group = panels->item / (int64_t)sizeof(uint16_t), stride = width * panels->item;
    const int64_t whole = panels->terms / group, rest = panels->terms % group;
    if (panels->line_stride == (int64_t)sizeof(uint16_t)) {
        for (int64_t step = 0; step < whole; step++) {
            const char *source = from + step * group * panels->term_stride;
            char *place = to + step * stride;
            const int64_t done = group == 2 ? pair_terms(place, source, panels->term_stride, used)
                                            : quad_terms(place, source, panels->term_stride, used);
            group_lines(place, source, panels, group, group, done, used);
        }
    } else {
        struct blas_panels groups = *panels;
        groups.terms = whole;
        transpose_lines(&groups, to, from, used, width);
    }
    if (rest)
        group_lines(to + whole * stride, from + whole * group * panels->term_stride, panels, group, rest, 0, used);
}

/* Transpose GROUP lines of GROUP contiguous elements: three times, the first half of the vectors interleaved with the
 * second. */
static inline void transpose_group(char *to, int64_t to_stride, const char *from, int64_t from_stride) {
    half_group lines[GROUP], mixed[GROUP];
    for (int64_t i = 0; i < GROUP; i++) lines[i] = *(const half_group *)(from + i * from_stride);
    for (int round = 0; round < 3; round++) {
        for (int64_t i = 0; i < GROUP / 2; i++) {
            const half_group a = lines[i], b = lines[i + GROUP / 2];
            mixed[2 * i] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
            mixed[2 * i + 1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
        }
        memcpy(lines, mixed, sizeof lines);
    }
    for (int64_t i = 0; i < GROUP; i++) *(half_group *)(to + i * to_stride) = lines[i];
}

/* Pack a panel of f16 as it is. */
static void keep_panel(const struct blas_panels *panels, char *to, const char *from, int64_t used, int64_t width) {
    const int64_t item = (int64_t)sizeof(uint16_t), stride = width * item, terms = panels->terms;
    int64_t lines = 0, whole = 0; /* those that are done */
    if (panels->line_stride == item) {
        lines = used / GROUP * GROUP, whole = terms;
        for (int64_t term = 0; term < terms; term++)
            for (int64_t line = 0; line < lines; line += GROUP)
                *(half_group *)(to + term * stride +
                                line * item) = *(const half_group *)(from + term * panels->term_stride + line * item);
    } else {
        lines = used / GROUP * GROUP, whole = terms / GROUP * GROUP;
        for (int64_t line = 0; line < lines; line += GROUP)
            for (int64_t term = 0; term < whole; term += GROUP)
                transpose_group(to + term * stride + line * item, stride,
                                from + line * panels->line_stride + term * item, panels->line_stride);
    }
    for (int64_t term = 0; term < terms; term++)
        for (int64_t line = term < whole ? lines : 0; line < used; line++)
            memcpy(to + term * stride + line * item, from + line * panels->line_stride + term * panels->term_stride,
                   sizeof(uint16_t));
}

/* Return alpha * sums + beta * c; NULL: no sums. */
static inline f32_group scaled(const f32_group *sums, const half_group *c, float alpha, float beta) {
    if (beta == 0) return sums ? alpha * *sums : (f32_group){0};
    const f32_group kept = beta * f32_of_f16(*c);
    return sums ? alpha * *sums + kept : kept;
}

MAVCG_PRIVATE void add_f16_column(char *c, const float *sums, int64_t rows, float alpha, float beta) {
    int64_t row = 0;
    for (; row + GROUP <= rows; row += GROUP) {
        half_group *to = (half_group *)(c + row * (int64_t)sizeof(uint16_t));
        *to = f16_of_f32(scaled(sums ? (const f32_group *)(sums + row) : NULL, to, alpha, beta));
    }
    if (row < rows) {
        char *to = c + row * (int64_t)sizeof(uint16_t);
        const size_t last_rows = (size_t)(rows - row);
        half_group last = {0};
        f32_group last_sums = {0};
        memcpy(&last, to, last_rows * sizeof(uint16_t));
        if (sums) memcpy(&last_sums, sums + row, last_rows * sizeof(float));
        last = f16_of_f32(scaled(sums ? &last_sums : NULL, &last, alpha, beta));
        memcpy(to, &last, last_rows * sizeof(uint16_t));
    }
}

MAVCG_PRIVATE float value_of_f16(uint16_t bits) { return f32_of_f16((half_group){bits})[0]; }

MAVCG_PRIVATE void pack_half_panel(const struct blas_panels *panels, char *to, const char *from, int64_t used,
                                   int64_t width) {
    const int64_t step_terms = blocks_table[panels->type].step_terms, stride = width * panels->item;
    const int64_t steps = (panels->terms + step_terms - 1) / step_terms;
    if (step_terms > 1) group_panel(panels, to, from, used, width);
    else if (panels->item == (int64_t)sizeof(uint16_t)) keep_panel(panels, to, from, used, width);
    else if (panels->type != BLAS_BF16) convert_panel(BLAS_F16, panels, to, from, used, width);
    else convert_panel(BLAS_BF16, panels, to, from, used, width);
    if (used < width)
        for (int64_t step = 0; step < steps; step++)
            memset(to + step * stride + used * panels->item, 0, (size_t)((width - used) * panels->item));
}

#if defined(__clang__) && defined(__x86_64__)
#pragma clang attribute pop
#endif
