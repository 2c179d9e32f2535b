/* The next BLAS of the program, for a processor that has too few instructions for this one. */
#ifndef MAVCG_BLAS_NEXT_H
#define MAVCG_BLAS_NEXT_H

#include <stdbool.h>

#include "internal.h"

/* True if this processor has the instructions that every version of every kernel needs. */
MAVCG_PRIVATE bool has_base_instructions(void);

/* The routine of this name in the libraries that come after this one. Ends the program where none has it. */
MAVCG_PRIVATE void *next_routine(const char *name);

#endif
