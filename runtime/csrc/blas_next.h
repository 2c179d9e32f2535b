/* The next BLAS of the program, for a processor that has too few instructions for this one. */
#ifndef MAVCG_BLAS_NEXT_H
#define MAVCG_BLAS_NEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "internal.h"

enum blas_instructions { INSTRUCTIONS_NOT_KNOWN, INSTRUCTIONS_SUFFICIENT, INSTRUCTIONS_TOO_FEW };

/* Find out which, and note it. */
MAVCG_PRIVATE uint32_t find_base_instructions(void);

MAVCG_PRIVATE_DATA uint32_t base_instructions;

/* True if it is known that this processor has the instructions. */
static inline bool known_to_suffice(void) {
    return __builtin_expect(__atomic_load_n(&base_instructions, __ATOMIC_RELAXED) == INSTRUCTIONS_SUFFICIENT, 1);
}

/* True if this processor has the instructions that every version of every kernel needs. */
static inline bool has_base_instructions(void) {
    uint32_t known = __atomic_load_n(&base_instructions, __ATOMIC_RELAXED);
    if (__builtin_expect(known == INSTRUCTIONS_NOT_KNOWN, 0)) known = find_base_instructions();
    return known == INSTRUCTIONS_SUFFICIENT;
}

/* The routine of this name in the libraries that come after this one. Ends the program where none has it. */
MAVCG_PRIVATE void *next_routine(const char *name);

#endif
