/* Looks up routines of the next BLAS with dlsym. */
#include "blas_next.h"

#include <stdio.h>
#include <stdlib.h>

#include "blas.h"
#include "internal.h"
#include "x86_features.h"

static void *const after_this_library = (void *)-1L; /* RTLD_NEXT of glibc and musl */

extern void *dlsym(void *handle, const char *name) MAVCG_WEAK_IMPORT;

MAVCG_PRIVATE uint32_t base_instructions;

/* Check the library's base needs with x86_can_run. base_needs has only one entry, at the position of a set's first
 * core. */
MAVCG_PRIVATE uint32_t find_base_instructions(void) {
    static const struct mavcg_set base = {.x86_needs = base_needs};
    const uint32_t found = x86_can_run(&base, MAVCG_FIRST_CORE) ? INSTRUCTIONS_SUFFICIENT : INSTRUCTIONS_TOO_FEW;
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
