/* Products whose A and B are in half precision: packing, and the mode in which groups of bf16 are multiplied.
 *
 * A library has bf16 in groups of step_terms consecutive terms if all its named cores multiply such groups in one
 * instruction: pairs on x86-64 (VDPBF16PS), four terms of two lines each on AArch64 (BFMMLA). Then a packed element is a
 * group, the last of which has 0 for the terms that are missing. Otherwise bf16, and f16 always, is converted to f32
 * when it is packed, which is exact, and f32's register tiles multiply it. */
#ifndef MAVCG_BLAS_HALF_H
#define MAVCG_BLAS_HALF_H

#include <stdbool.h>
#include <stdint.h>

#include "blas.h"
#include "blas_pack.h"
#include "internal.h"

/* Pack a panel of bf16 or f16: `used` lines from `from` on, and zeros up to `width`. */
MAVCG_PRIVATE void pack_half_panel(const struct blas_panels *panels, char *to, const char *from, int64_t used,
                                   int64_t width);

/* The instructions round in a way of their own, whatever the thread's mode says, and treat subnormal numbers as 0.
 * Versions without them compute the same by other instructions if the mode is right: on x86-64 rounding to nearest and
 * subnormal numbers as 0 (kernels/builder/bf16_products.py), on AArch64 the default (kernels/blas/matrix_sums.py). C is
 * scaled and added in this mode too, on all cores. These functions set it for groups of bf16, and restore the thread's
 * own. */
#if defined(__x86_64__)
static inline uint64_t arithmetic_mode(void) { return __builtin_ia32_stmxcsr(); }

static inline void set_arithmetic_mode(uint64_t mode) { __builtin_ia32_ldmxcsr((uint32_t)mode); }

enum { MODE_OF_GROUPS = 0x1f80 | 0x8000 | 0x40 }; /* exceptions masked, flush results, flush inputs */
#else
static inline uint64_t arithmetic_mode(void) {
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}

static inline void set_arithmetic_mode(uint64_t mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode)); }

enum { MODE_OF_GROUPS = 0 };
#endif

static inline bool is_in_groups(enum blas_type type) { return type == BLAS_BF16 && blocks_table[type].step_terms > 1; }

static inline uint64_t begin_groups(enum blas_type type) {
    if (!is_in_groups(type)) return 0;
    const uint64_t own = arithmetic_mode();
    set_arithmetic_mode(MODE_OF_GROUPS);
    return own;
}

static inline void end_groups(enum blas_type type, uint64_t own) {
    if (is_in_groups(type)) set_arithmetic_mode(own);
}

#endif
