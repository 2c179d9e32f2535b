/* The counts of a context: rows of its steps, iterations and strides of its loops, at its lengths. */
#ifndef MAVCG_ENGINE_COUNTS_H
#define MAVCG_ENGINE_COUNTS_H

#include <stdint.h>

#include "engine.h"

/* Return the rows of a phase. */
static inline uint32_t phase_rows(const struct mavcg_context *context, uint32_t phase) {
#if DIMENSIONS /* the model has bounded dimensions */
    const int32_t number = step_counts[phase];
    /* Atomic for threads that read it without a use, while they find no rows left (leave_steps). */
    if (number >= 0) return __atomic_load_n(&context->counts[number], __ATOMIC_RELAXED);
#else
    (void)context;
#endif
    return run_table[phase].rows;
}

/* Return the iterations of a loop. */
static inline uint32_t loop_trips(const struct mavcg_context *context, uint32_t loop) {
#if DIMENSIONS
    const int32_t number = loop_counts[loop];
    if (number >= 0) return context->counts[number];
#else
    (void)context;
#endif
    return loop_table[loop].trips;
}

/* Return the stride of a line of moving_table, in bytes. */
static inline int64_t moving_stride(const struct mavcg_context *context, uint32_t line) {
    const int64_t longest = moving_table[line].stride;
#if DIMENSIONS
    const int32_t number = moving_counts[line];
    if (number >= 0) return longest < 0 ? -(int64_t)context->counts[number] : (int64_t)context->counts[number];
#else
    (void)context;
#endif
    return longest;
}

#endif
