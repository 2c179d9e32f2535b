/* Computation of a step's rows by several threads.
 *
 * The caller of run posts a step by writing its number, with no rows taken, into `ticket`. A free thread takes a chunk
 * of the remaining rows by adding its size to the ticket (engine_chunk.h decides which rows, and how many); if no rows
 * remain, there is nothing left to do. The step is complete when all its rows are counted in `done`, whichever threads
 * computed them: a thread that comes late, or never, delays no other.
 *
 * A late thread may take a chunk of a later step, even of a later run, and even if the ticket that it read was replaced
 * and an equal one has come since. This is correct: the replaced value names the step and the rows, any chunk size is
 * correct, and while a thread holds unfinished rows of a step, the pointers of that step do not change. For the same
 * reason a thread that has taken rows and not yet counted them need not check that the ticket still names its step. The
 * number of a step's rows changes only after all threads have left the steps (leave_steps). */
#ifndef MAVCG_ENGINE_POOL_H
#define MAVCG_ENGINE_POOL_H

#include <stdint.h>

#include "engine.h"
#include "internal.h"

/* Return the id of the core that the thread runs on, as far as the selector knows it. */
MAVCG_PRIVATE uint32_t current_core(void);

/* Return the number of minimum chunks in `rows` rows of a step. */
MAVCG_PRIVATE uint32_t min_chunks(const struct engine_step *step, uint32_t rows);

/* Compute rows begin to end - 1, call_rows per call, with bounded dimensions up to a quarter more in the last one; each
 * call uses the version for the core that the thread runs on at that time. */
MAVCG_PRIVATE void compute_rows(struct mavcg_context *context, const struct engine_step *step, uint32_t begin,
                                uint32_t end, void *scratch);

/* Compute a step with all threads of the context. */
MAVCG_PRIVATE void run_in_parallel(struct mavcg_context *context, uint32_t number);

#if DIMENSIONS /* the model has bounded dimensions */
/* Wait until no thread reads the ticket of a past step, whose rows may then change. Called between runs. */
MAVCG_PRIVATE void leave_steps(struct mavcg_context *context);
#endif

/* Start the threads that the context lacks in this process: all of them in its first run, and in its first run in a
 * forked child, which has none of its parent's threads. Returns MAVCG_OK or MAVCG_ERROR_THREADS. */
MAVCG_PRIVATE int start_workers(struct mavcg_context *context, uint32_t process);

/* Stop and join the threads. */
MAVCG_PRIVATE void stop_workers(struct mavcg_context *context);

#endif
