/* The threads of the library, and steps whose rows they share.
 *
 * There is one team per process. A call that finds the team in use by another thread of the program computes on its own
 * thread alone: a program with threads of its own has already divided its work. Steps work as in engine_pool.h: threads
 * take chunks of rows in proportion to the speed of their core, and a step is complete when all rows are counted,
 * whichever threads computed them. */
#ifndef MAVCG_BLAS_TEAM_H
#define MAVCG_BLAS_TEAM_H

#include <stdbool.h>
#include <stdint.h>

#include "internal.h"

struct blas_team;

/* Computes rows begin to end - 1 of a step. */
typedef void step_function(const void *work, uint32_t begin, uint32_t end);

/* Take the team, with its threads started. Returns NULL if the calling thread must compute alone. */
MAVCG_PRIVATE struct blas_team *take_team(void);

/* Take the team for a call that takes less time than waking threads. Returns NULL unless the last call that may be
 * shared ended so recently that the threads still poll, or will poll at the next such call. */
MAVCG_PRIVATE struct blas_team *take_polling_team(void);

/* Give the team back. may_share: the call is of the kind that take_polling_team serves, whether or not it had the
 * team. */
MAVCG_PRIVATE void return_team(struct blas_team *team, bool may_share);

/* Return the number of threads, the caller included; 1 if team is NULL. */
MAVCG_PRIVATE uint32_t team_threads(const struct blas_team *team);

/* Compute a step and return when it is complete. All chunks but the last are multiples of min_chunk_rows. */
MAVCG_PRIVATE void run_step(struct blas_team *team, step_function *run, const void *work, uint32_t rows,
                            uint32_t min_chunk_rows);

#endif
