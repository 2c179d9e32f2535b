/* The next BLAS of the program: it computes if this processor lacks instructions that this library needs. */
#ifndef MAVCG_BLAS_NEXT_H
#define MAVCG_BLAS_NEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "internal.h"

enum blas_instructions { INSTRUCTIONS_NOT_KNOWN, INSTRUCTIONS_SUFFICIENT, INSTRUCTIONS_TOO_FEW };

/* Check whether this processor has the base instructions; store and return the result. */
MAVCG_PRIVATE uint32_t find_base_instructions(void);

MAVCG_PRIVATE_DATA uint32_t base_instructions;

/* True if this processor is already known to have the base instructions; does not check. */
static inline bool known_to_suffice(void) {
    return __builtin_expect(__atomic_load_n(&base_instructions, __ATOMIC_RELAXED) == INSTRUCTIONS_SUFFICIENT, 1);
}

/* True if this processor has the instructions that every version of every kernel needs. */
static inline bool has_base_instructions(void) {
    uint32_t known = __atomic_load_n(&base_instructions, __ATOMIC_RELAXED);
    if (__builtin_expect(known == INSTRUCTIONS_NOT_KNOWN, 0)) known = find_base_instructions();
    return known == INSTRUCTIONS_SUFFICIENT;
}

/* Return the routine of this name from the libraries loaded after this one. Ends the program with a message if none of
 * them has it. */
MAVCG_PRIVATE void *next_routine(const char *name);

#endif
