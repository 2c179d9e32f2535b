/* A step's rows computed by several threads.
 *
 * The caller of run posts a step by writing its number and no taken rows into `ticket`. A thread that has time takes a
 * chunk of the rows that are left by adding them there (engine_chunk.h says which, and how many); no rows left means that
 * there is nothing (more) to do. The step is complete when all its rows are counted in `done`, whichever threads computed
 * them: a thread that comes late, or not at all, delays no other.
 *
 * A late thread's chunk may fall into a later step, even of a later run, and even where the ticket that it read is long
 * replaced and an equal one has come. It is as good as any: the value that it replaces names the step and the rows, any
 * number of these is right, and while the thread holds unfinished rows of a step, that step's pointers stay as they are.
 * For the same reason a thread that has taken rows, and not counted them yet, need not check that it is still in the step
 * of the ticket. */
#ifndef MAVCG_ENGINE_POOL_H
#define MAVCG_ENGINE_POOL_H

#include <stdint.h>

#include "engine.h"
#include "internal.h"

/* The id of the core that the thread runs on, as far as the selector knows it. */
MAVCG_PRIVATE uint32_t current_core(void);

/* The number of chunks of the minimum size that a step has. */
MAVCG_PRIVATE uint32_t min_chunks(const struct engine_step *step);

/* Compute rows from begin to end, at most call_rows a call, each call by the version for the core that this thread then
 * runs on. */
MAVCG_PRIVATE void compute_rows(struct mavcg_context *context, const struct engine_step *step, uint32_t begin,
                                uint32_t end, void *scratch);

/* Compute a step with all threads of the context. */
MAVCG_PRIVATE void run_in_parallel(struct mavcg_context *context, uint32_t number);

/* Start the threads that the context lacks in this process: all in its first run, and in the first one in a forked child,
 * which has none of the parent's. Returns MAVCG_OK or MAVCG_ERROR_THREADS. */
MAVCG_PRIVATE int start_workers(struct mavcg_context *context, uint32_t process);

/* Stop and join the threads. */
MAVCG_PRIVATE void stop_workers(struct mavcg_context *context);

#endif
