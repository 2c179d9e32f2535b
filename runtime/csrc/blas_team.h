/* The threads of the library, and steps whose rows they share.
 *
 * There is one team a process. A call that finds it taken, by another thread of the program, computes alone: programs
 * with threads of their own have given each its work. A step is as in engine_pool.h: threads take chunks of its rows
 * by the speed of their core, and it is complete when all rows are counted, whoever computed them. */
#ifndef MAVCG_BLAS_TEAM_H
#define MAVCG_BLAS_TEAM_H

#include <stdbool.h>
#include <stdint.h>

#include "internal.h"

struct blas_team;

/* Computes rows begin to end - 1 of a step. */
typedef void step_function(const void *work, uint32_t begin, uint32_t end);

/* The team, with its threads started; NULL: this thread computes alone. */
MAVCG_PRIVATE struct blas_team *take_team(void);

/* The same for a call that takes less time than waking threads: NULL unless the last call that may be shared ended so
 * short a time ago that threads poll, or will poll at the next call of a program that goes on like this. */
MAVCG_PRIVATE struct blas_team *take_polling_team(void);

/* may_share: the call is one that take_polling_team speaks of, whether it had the team or not. */
MAVCG_PRIVATE void return_team(struct blas_team *team, bool may_share);

/* Its threads, the caller included; 1 for NULL. */
MAVCG_PRIVATE uint32_t team_threads(const struct blas_team *team);

/* Compute a step; returns when it is complete. Chunks are multiples of min_chunk_rows, but the last. */
MAVCG_PRIVATE void run_step(struct blas_team *team, step_function *run, const void *work, uint32_t rows,
                            uint32_t min_chunk_rows);

#endif
