/* Products whose A and B are in half precision: packing, rounding, and the mode in which they are multiplied.
 *
 * A library has bf16 in groups of step_terms consecutive terms if all its named cores multiply such groups in one
 * instruction: pairs on x86-64 (VDPBF16PS), four terms of two lines each on AArch64 (BFMMLA). Then a packed element is a
 * group, the last of which has 0 for the terms that are missing. f16 stays f16 in products whose C is f16, too, if all
 * named cores compute in it. Otherwise it is converted to f32 when it is packed, as bf16 is, which is exact, and f32's
 * register tiles multiply it. */
#ifndef MAVCG_BLAS_HALF_H
#define MAVCG_BLAS_HALF_H

#include <stdbool.h>
#include <stdint.h>

#include "blas.h"
#include "blas_panels.h"
#include "internal.h"

/* Pack a panel of bf16 or f16: `used` lines from `from` on, and zeros up to `width`. */
MAVCG_PRIVATE void pack_half_panel(const struct blas_panels *panels, char *to, const char *from, int64_t used,
                                   int64_t width);

/* Compute c = alpha * sums + beta * c for contiguous rows of f16 in f32, and round it; c is not read if beta is 0.
 * sums: NULL: there are none. */
MAVCG_PRIVATE void add_f16_column(char *c, const float *sums, int64_t rows, float alpha, float beta);

/* Return the value of an f16. */
MAVCG_PRIVATE float value_of_f16(uint16_t bits);

/* The instructions for groups of bf16 round in a way of their own, whatever the thread's mode says, and treat subnormal numbers as 0.
 * Versions without them compute the same by other instructions if the mode is right: on x86-64 rounding to nearest and
 * subnormal numbers as 0 (kernels/builder/bf16_products.py), on AArch64 the default (kernels/blas/matrix_sums.py). C is
 * scaled and added in this mode too, on all cores. Products with C of f16 round to nearest and keep subnormal numbers,
 * whatever the thread's mode says, as versions without the arithmetic compute so only in this mode
 * (kernels/blas/half_tile.py). These functions set the mode for such products, and restore the thread's own. */
#if defined(__x86_64__)
static inline uint64_t arithmetic_mode(void) { return __builtin_ia32_stmxcsr(); }

static inline void set_arithmetic_mode(uint64_t mode) { __builtin_ia32_ldmxcsr((uint32_t)mode); }

/* Exceptions are masked. Of groups: flush results, flush inputs. */
enum { MODE_OF_F16 = 0x1f80, MODE_OF_GROUPS = MODE_OF_F16 | 0x8000 | 0x40 };
#else
static inline uint64_t arithmetic_mode(void) {
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}

static inline void set_arithmetic_mode(uint64_t mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode)); }

enum { MODE_OF_F16 = 0, MODE_OF_GROUPS = 0 };
#endif

static inline bool is_in_groups(enum blas_type type) { return type == BLAS_BF16 && blocks_table[type].step_terms > 1; }

static inline bool has_own_mode(enum blas_type type) { return type == BLAS_ALL_F16 || is_in_groups(type); }

static inline uint64_t begin_mode(enum blas_type type) {
    if (!has_own_mode(type)) return 0;
    const uint64_t own = arithmetic_mode();
    set_arithmetic_mode(type == BLAS_ALL_F16 ? MODE_OF_F16 : MODE_OF_GROUPS);
    return own;
}

static inline void end_mode(enum blas_type type, uint64_t own) {
    if (has_own_mode(type)) set_arithmetic_mode(own);
}

#endif
