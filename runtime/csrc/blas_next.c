/* Looks up routines of the next BLAS with dlsym. */
#include "blas_next.h"

#include <stdio.h>
#include <stdlib.h>

#include "base_needs.h"
#include "blas.h"
#include "internal.h"

static void *const after_this_library = (void *)-1L; /* RTLD_NEXT of glibc and musl */

extern void *dlsym(void *handle, const char *name) MAVCG_WEAK_IMPORT;

MAVCG_PRIVATE uint32_t base_instructions;

MAVCG_PRIVATE uint32_t find_base_instructions(void) {
    const uint32_t found = offers_base(base_needs) ? INSTRUCTIONS_SUFFICIENT : INSTRUCTIONS_TOO_FEW;
    __atomic_store_n(&base_instructions, found, __ATOMIC_RELAXED);
    return found;
}

MAVCG_PRIVATE void *next_routine(const char *name) {
    void *routine = dlsym ? dlsym(after_this_library, name) : NULL;
    if (routine) return routine;
    fprintf(
        stderr,
        "mavcg: %s: this processor lacks instructions that this BLAS was built for (AVX2, FMA), and no other library "
        "of the program has the routine; link or preload another BLAS\n",
        name);
    exit(EXIT_FAILURE);
}
