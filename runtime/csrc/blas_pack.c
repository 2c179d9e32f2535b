/* Packs panels: contiguous rows of the source are copied, strided ones are transposed. */
#include "blas_pack.h"

#include <string.h>

#include "blas.h"
#include "blas_half.h"
#include "blas_tiles.h"
#include "blas_transpose.h"
#include "internal.h"

/* All code of this file runs only after the check for AVX2 (blas_next.h); the other files of the unit use the
 * architecture's baseline. */
#if defined(__clang__) && defined(__x86_64__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#endif

typedef uint64_t chunk32 __attribute__((vector_size(32), aligned(4)));
typedef uint64_t chunk16 __attribute__((vector_size(16), aligned(4)));

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
