/* Packs panels: contiguous rows of the source are copied, strided ones are transposed in registers, a block at a
 * time. */
#include "blas_pack.h"

#include <string.h>

#include "blas.h"
#include "blas_half.h"
#include "blas_tiles.h"
#include "internal.h"

/* All code of this file runs only after the check for AVX2 (blas_next.h); the other files of the unit use the
 * architecture's baseline. */
#if defined(__clang__) && defined(__x86_64__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#endif

/* Elements may be groups of two or four bf16, with their alignment. */
typedef float f32x4 __attribute__((vector_size(16), aligned(2)));
typedef float f32x8 __attribute__((vector_size(32), aligned(2)));
typedef double f64x2 __attribute__((vector_size(16), aligned(2)));
typedef double f64x4 __attribute__((vector_size(32), aligned(2)));
typedef uint64_t chunk32 __attribute__((vector_size(32), aligned(4)));
typedef uint64_t chunk16 __attribute__((vector_size(16), aligned(4)));

enum { FETCHED_BYTES = 64 }; /* bytes that one prefetch brings: a cache line */

static inline int64_t at_most(int64_t value, int64_t most) { return value < most ? value : most; }

MAVCG_PRIVATE int64_t panel_count(const struct blas_panels *panels) {
    return (panels->count + panels->width - 1) / panels->width;
}

/* Copy a small multiple of 4 bytes without calling memcpy. */
static inline void copy_line(char *to, const char *from, int64_t bytes) {
    int64_t at = 0;
    for (; at + 64 <= bytes; at += 64) {
        const chunk32 first = *(const chunk32 *)(from + at), second = *(const chunk32 *)(from + at + 32);
        *(chunk32 *)(to + at) = first;
        *(chunk32 *)(to + at + 32) = second;
    }
    for (; at + 32 <= bytes; at += 32) *(chunk32 *)(to + at) = *(const chunk32 *)(from + at);
    for (; at + 16 <= bytes; at += 16) *(chunk16 *)(to + at) = *(const chunk16 *)(from + at);
    for (; at < bytes; at += 4) memcpy(to + at, from + at, 4);
}

/* Number of panels that are copied together. Their parts of a term are contiguous in the source, so that caches and TLB
 * see each source page once. Consecutive terms are strided there, so that the hardware does not prefetch them. */
enum { PANELS_TOGETHER = 4, PREFETCHED_TERMS = 8 };

static void copy_panels(const struct blas_panels *panels, char *to, const char *from, int64_t used, int64_t width,
                        int64_t count) {
    const int64_t used_bytes = used * panels->item, bytes = width * panels->item;
    const int64_t panel_bytes = bytes * panels->terms, ahead = PREFETCHED_TERMS * panels->term_stride;
    for (int64_t term = 0; term < panels->terms; term++, to += bytes, from += panels->term_stride)
        for (int64_t panel = 0; panel < count; panel++) {
            const char *source = from + panel * used_bytes;
            char *place = to + panel * panel_bytes;
            __builtin_prefetch(source + ahead);
            copy_line(place, source, used_bytes);
            if (used_bytes < bytes) memset(place + used_bytes, 0, (size_t)(bytes - used_bytes));
        }
}

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

static void transpose_panel(const struct blas_panels *panels, char *to, const char *from, int64_t used, int64_t width) {
    const int64_t step = panels->item, stride = width * step;
    transpose_lines(panels, to, from, used, width);
    if (used < width)
        for (int64_t term = 0; term < panels->terms; term++)
            memset(to + term * stride + used * step, 0, (size_t)((width - used) * step));
}

MAVCG_PRIVATE void pack_panels(const struct blas_panels *panels, int64_t first, int64_t last) {
    const bool half = is_half(panels->type), copies = !half && panels->line_stride == panels->item;
    const int64_t steps = steps_of(&blocks_table[panels->type], panels->terms);
    for (int64_t panel = first, count; panel < last; panel += count) {
        const int64_t line = panel * panels->width, used = at_most(panels->count - line, panels->width);
        const int64_t width = (used + panels->round - 1) / panels->round * panels->round;
        char *to = panels->to + line * steps * panels->item;
        const char *from = panels->from + line * panels->line_stride;
        count = copies ? at_most(at_most(panels->count / panels->width, last) - panel, PANELS_TOGETHER) : 1;
        if (count < 1) count = 1; /* the last, partial panel */
        if (half) pack_half_panel(panels, to, from, used, width);
        else if (copies) copy_panels(panels, to, from, used, width, count);
        else transpose_panel(panels, to, from, used, width);
    }
}

#if defined(__clang__) && defined(__x86_64__)
#pragma clang attribute pop
#endif
