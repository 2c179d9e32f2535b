/* Products whose A and B are in half precision: packing, and the mode in which pairs of bf16 are multiplied.
 *
 * A library has bf16 in pairs if all its named cores multiply pairs in one instruction (step_terms of its blocks). Then
 * a packed element is a pair of consecutive terms, the first in its low half; the last of an odd number has 0 beside it.
 * Otherwise bf16, and f16 always, is converted to f32 when it is packed, which is exact, and f32's register tiles
 * multiply it. */
#ifndef MAVCG_BLAS_HALF_H
#define MAVCG_BLAS_HALF_H

#include <stdint.h>

#include "blas.h"
#include "blas_pack.h"
#include "internal.h"

/* Pack a panel of bf16 or f16: `used` lines from `from` on, and zeros up to `width`. */
MAVCG_PRIVATE void pack_half_panel(const struct blas_panels *panels, char *to, const char *from, int64_t used,
                                   int64_t width);

/* VDPBF16PS rounds to nearest and treats subnormal numbers as 0, whatever MXCSR says. Versions without it compute the
 * same with f32 multiply-adds if MXCSR says so (kernels/blas/pair_product.py); C is scaled and added in the same mode on
 * all cores. These functions set this mode for pairs of bf16, and restore the thread's own. */
#if defined(__x86_64__)
static inline uint32_t begin_pairs(enum blas_type type) {
    enum { ALL_MASKED = 0x1f80, FLUSH_RESULTS = 0x8000, FLUSH_INPUTS = 0x40 };
    if (type != BLAS_BF16 || blocks_table[type].step_terms == 1) return 0;
    const uint32_t own = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(ALL_MASKED | FLUSH_RESULTS | FLUSH_INPUTS);
    return own;
}

static inline void end_pairs(enum blas_type type, uint32_t own) {
    if (type == BLAS_BF16 && blocks_table[type].step_terms != 1) __builtin_ia32_ldmxcsr(own);
}
#else
static inline uint32_t begin_pairs(enum blas_type type) {
    (void)type;
    return 0;
}

static inline void end_pairs(enum blas_type type, uint32_t own) {
    (void)type;
    (void)own;
}
#endif

#endif
