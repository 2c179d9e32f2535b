/* States: tensors that live in a context between runs. */
#ifndef MAVCG_ENGINE_STATE_H
#define MAVCG_ENGINE_STATE_H

#include <stddef.h>

#include "engine.h"
#include "internal.h"

/* Return the address that the offsets of a copy, of enum engine_copy, count from in the next or present run. */
MAVCG_PRIVATE char *states_of(const struct mavcg_context *context, uint32_t copy);

/* Return the value of a state that the next run reads, and the copy that it writes where there are two. */
MAVCG_PRIVATE char *value_of(const struct mavcg_context *context, const struct engine_state *state);
MAVCG_PRIVATE char *second_of(const struct mavcg_context *context, const struct engine_state *state);

/* Note that a run begins, and that it ended with a status. Between these, and after another status than MAVCG_OK, the
 * states are undefined. begin_states returns MAVCG_ERROR_STATE where they are undefined already. */
MAVCG_PRIVATE int begin_states(struct mavcg_context *context);
MAVCG_PRIVATE void end_states(struct mavcg_context *context, int status);

/* Set the states to their first values. */
MAVCG_PRIVATE void set_initial_states(struct mavcg_context *context);

/* The functions of the API, for a context that no run uses. Return a status. */
MAVCG_PRIVATE int reset_states(struct mavcg_context *context);
MAVCG_PRIVATE int save_states(struct mavcg_context *context, void *buffer, size_t bytes);
MAVCG_PRIVATE int restore_states(struct mavcg_context *context, const void *buffer, size_t bytes);

#endif
