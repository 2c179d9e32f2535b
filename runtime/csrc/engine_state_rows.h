/* The memory of states whose shapes follow from the lengths of a run, such as one row for each sequence of a batch.
 *
 * A run reads and writes such a state dense in its own lengths. What the longest lengths have beside that lies behind
 * it, in the same order, in both copies of a state that has two, so a run of fewer sequences leaves the others as they
 * are. Where another axis lies outside of one that changes, as layers do of sequences, elements have another place at
 * each length, and a change of the lengths moves them. */
#ifndef MAVCG_ENGINE_STATE_ROWS_H
#define MAVCG_ENGINE_STATE_ROWS_H

#include "engine.h"
#include "internal.h"

/* Copy a value that is dense in the longest lengths to the one that the next run reads, and the reverse. */
MAVCG_PRIVATE void pack_state(const struct mavcg_context *context, const struct engine_state *state, const char *dense);
MAVCG_PRIVATE void unpack_state(const struct mavcg_context *context, const struct engine_state *state, char *dense);

#if DIMENSIONS /* the model has bounded dimensions */
/* Order the states for other counts, which the context does not have yet. */
MAVCG_PRIVATE void move_states(struct mavcg_context *context, const uint32_t *counts);
#endif

#endif
