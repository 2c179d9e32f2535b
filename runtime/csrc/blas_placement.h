/* Keeping a thread of a BLAS off the CPU of the thread that it works for (models: engine_wake.h). */
#ifndef MAVCG_BLAS_PLACEMENT_H
#define MAVCG_BLAS_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "internal.h"

/* What a worker knows of its caller, the thread that posts steps. caller_cpu: the CPU on which it last began to.
 * moved_ns: when the worker last left that CPU; 0: never. */
struct blas_placement {
    const uint32_t *caller_cpu;
    uint64_t moved_ns;
};

static const uint32_t UNKNOWN_CPU = 0xFFFFFFFF;

/* Return the CPU that the calling thread runs on, or UNKNOWN_CPU. */
MAVCG_PRIVATE uint32_t running_cpu(void);

/* Poll the word for at most spin_ns, as spin_until_change does. A thread that waits on its caller's CPU moves to
 * another one that it may run on. The set of CPUs that it may run on stays as it is. */
MAVCG_PRIVATE bool spin_apart(const uint32_t *word, uint32_t value, uint64_t spin_ns, struct blas_placement *placement);

#endif
