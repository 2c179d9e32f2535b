/* Asks the loader for the next BLAS. */
#include "blas_next.h"

#include <stdio.h>
#include <stdlib.h>

#include "blas.h"
#include "internal.h"
#include "x86_features.h"

enum { NOT_KNOWN, SUFFICIENT, TOO_FEW };

static void *const after_this_library = (void *)-1L; /* RTLD_NEXT of glibc and musl */

extern void *dlsym(void *handle, const char *name) MAVCG_WEAK_IMPORT;

/* The base needs stand where a core set has its first core's. */
MAVCG_PRIVATE bool has_base_instructions(void) {
    static uint32_t known;
    uint32_t answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (answer == NOT_KNOWN) {
        static const struct mavcg_set base = {.x86_needs = base_needs};
        answer = x86_can_run(&base, MAVCG_FIRST_CORE) ? SUFFICIENT : TOO_FEW;
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer == SUFFICIENT;
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
