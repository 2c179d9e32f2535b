/* Holds, resets, saves and restores the states of a context. */
#include "engine_state.h"

#include <string.h>

#include "engine.h"
#include "engine_process.h"
#include "engine_shape.h"
#include "engine_state_rows.h"
#include "internal.h"

/* What precedes the values of saved states. model: STATES_DIGEST, so that another model's are refused. */
struct states_header {
    char mark[8];
    uint64_t model;
};

static const struct states_header own_header = {{'M', 'A', 'V', 'C', 'G', 'S', 'T', '1'}, STATES_DIGEST};

/* Loops compare with it, since compilers warn of a number that is compared with no states. */
static const struct engine_state *const end_of_states = state_table + STATES;

MAVCG_PRIVATE char *states_of(const struct mavcg_context *context, uint32_t copy) {
    uint32_t number = copy == ONLY_COPY ? 0 : context->turn ^ (copy == WRITTEN_COPY);
    return context->states + number * (size_t)SWAPPED_BYTES;
}

MAVCG_PRIVATE int begin_states(struct mavcg_context *context) {
    if (!STATES) return MAVCG_OK;
    if (context->undefined) return MAVCG_ERROR_STATE;
#if KEPT /* states grow */
    if (!kept_fit(context)) return MAVCG_ERROR_SIZE;
#endif
    context->undefined = true;
    return MAVCG_OK;
}

MAVCG_PRIVATE void end_states(struct mavcg_context *context, int status) {
    if (!STATES || status) return;
    context->turn ^= 1;
    context->undefined = false;
#if KEPT
    grow_kept(context);
#endif
}

MAVCG_PRIVATE char *value_of(const struct mavcg_context *context, const struct engine_state *state) {
    return states_of(context, state->in_place ? ONLY_COPY : READ_COPY) + state->offset;
}

MAVCG_PRIVATE char *second_of(const struct mavcg_context *context, const struct engine_state *state) {
    return states_of(context, WRITTEN_COPY) + state->offset;
}

/* Give a state a value, dense in the longest lengths; NULL: zeros. */
static void set_value(const struct mavcg_context *context, const struct engine_state *state, const char *value) {
    if (value) pack_state(context, state, value);
    else memset(value_of(context, state), 0, state->bytes);
    if (state->shaped && !state->in_place) memcpy(second_of(context, state), value_of(context, state), state->bytes);
}

MAVCG_PRIVATE void set_initial_states(struct mavcg_context *context) {
    for (const struct engine_state *state = state_table; state != end_of_states; state++)
        set_value(context, state, state->initial < 0 ? NULL : MAVCG_CONSTANTS + state->initial);
    context->undefined = false;
}

MAVCG_PRIVATE int reset_states(struct mavcg_context *context) {
    if (!context) return MAVCG_ERROR_NULL;
    if (!acquire_context(context, this_process(context))) return MAVCG_BUSY;
#if KEPT
    reset_kept(context);
#endif
    set_initial_states(context);
    release_context(context);
    return MAVCG_OK;
}

MAVCG_PRIVATE int save_states(struct mavcg_context *context, void *buffer, size_t bytes) {
    if (!context || !buffer) return MAVCG_ERROR_NULL;
    if (bytes != SAVED_BYTES) return MAVCG_ERROR_SIZE;
    if (!acquire_context(context, this_process(context))) return MAVCG_BUSY;
    int status = context->undefined ? MAVCG_ERROR_STATE : MAVCG_OK;
    if (!status) {
        char *to = (char *)memcpy(buffer, &own_header, sizeof own_header) + sizeof own_header;
        for (const struct engine_state *state = state_table; state != end_of_states; to += state++->bytes)
            unpack_state(context, state, to);
#if KEPT
        int64_t kept[KEPT];
        read_kept(context, kept);
        memcpy(to, kept, sizeof kept);
#endif
    }
    release_context(context);
    return status;
}

MAVCG_PRIVATE int restore_states(struct mavcg_context *context, const void *buffer, size_t bytes) {
    if (!context || !buffer) return MAVCG_ERROR_NULL;
    if (bytes != SAVED_BYTES) return MAVCG_ERROR_SIZE;
    if (memcmp(buffer, &own_header, sizeof own_header) != 0) return MAVCG_ERROR_STATE;
#if KEPT
    int64_t kept[KEPT];
    memcpy(kept, (const char *)buffer + SAVED_BYTES - sizeof kept, sizeof kept);
    if (!kept_exist(kept)) return MAVCG_ERROR_STATE;
#endif
    if (!acquire_context(context, this_process(context))) return MAVCG_BUSY;
#if KEPT
    set_kept(context, kept);
#endif
    const char *from = (const char *)buffer + sizeof own_header;
    for (const struct engine_state *state = state_table; state != end_of_states; from += state++->bytes)
        set_value(context, state, from);
    context->undefined = false;
    release_context(context);
    return MAVCG_OK;
}
