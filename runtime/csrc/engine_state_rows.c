/* Orders the elements of states by the lengths of a run. */
#include "engine_state_rows.h"

#include <stdbool.h>
#include <string.h>

#include "engine.h"
#include "engine_state.h"
#include "internal.h"

#if DIMENSIONS /* the model has bounded dimensions */

/* A copy from the order of the longest lengths to that of `counts` (pack), or back. inside, outside: offsets in the
 * latter of the next element that a run of these lengths has, and of the next one that it lacks; dense: in the former.
 */
struct reordering {
    const struct engine_state *state;
    const uint32_t *counts;
    bool pack;
    char *to;
    const char *from;
    uint64_t inside, outside, dense;
};

static uint64_t longest_of(const struct engine_state *state, uint32_t axis) {
    return (uint64_t)states_table[state - state_table].dims[axis];
}

static uint64_t length_of(const struct engine_state *state, uint32_t axis, const uint32_t *counts) {
    const int32_t number = states_counts[state->first_count + axis];
    return number < 0 ? longest_of(state, axis) : counts[number];
}

static void copy_part(struct reordering *copy, uint64_t *place, uint64_t bytes) {
    if (copy->pack) memcpy(copy->to + *place, copy->from + copy->dense, bytes);
    else memcpy(copy->to + copy->dense, copy->from + *place, bytes);
    *place += bytes;
    copy->dense += bytes;
}

/* Copy all indices of an axis, which have so many bytes. */
static void copy_axis(struct reordering *copy, uint32_t axis, uint64_t bytes) {
    const uint64_t longest = longest_of(copy->state, axis), length = length_of(copy->state, axis, copy->counts);
    const uint64_t index_bytes = bytes / longest;
    if (axis + 1 == copy->state->shaped) copy_part(copy, &copy->inside, length * index_bytes);
    else
        for (uint64_t i = 0; i < length; i++) copy_axis(copy, axis + 1, index_bytes);
    copy_part(copy, &copy->outside, (longest - length) * index_bytes);
}

static void reorder(const struct engine_state *state, const uint32_t *counts, bool pack, char *to, const char *from) {
    struct reordering copy = {state, counts, pack, to, from, 0, state->bytes, 0};
    for (uint32_t axis = 0; axis < state->shaped; axis++)
        copy.outside = copy.outside / longest_of(state, axis) * length_of(state, axis, counts);
    copy_axis(&copy, 0, state->bytes);
}

static bool is_reshaped(const struct engine_state *state, const uint32_t *before, const uint32_t *after) {
    for (uint32_t axis = 0; axis < state->shaped; axis++)
        if (length_of(state, axis, before) != length_of(state, axis, after)) return true;
    return false;
}

MAVCG_PRIVATE void move_states(struct mavcg_context *context, const uint32_t *counts) {
    if (!STATES) return; /* nor is there a pointer to add to */
    char *dense = context->states + (STATE_BYTES - MOVED_BYTES);
    for (const struct engine_state *state = state_table, *end = state + STATES; state != end; state++) {
        if (!is_reshaped(state, context->counts, counts)) continue;
        char *value = value_of(context, state);
        if (state->moves) {
            reorder(state, context->counts, false, dense, value);
            reorder(state, counts, true, value, dense);
        }
        if (!state->in_place) memcpy(second_of(context, state), value, state->bytes);
    }
}

#endif

MAVCG_PRIVATE void pack_state(const struct mavcg_context *context, const struct engine_state *state,
                              const char *dense) {
#if DIMENSIONS
    if (state->moves) {
        reorder(state, context->counts, true, value_of(context, state), dense);
        return;
    }
#endif
    memcpy(value_of(context, state), dense, state->bytes);
}

MAVCG_PRIVATE void unpack_state(const struct mavcg_context *context, const struct engine_state *state, char *dense) {
#if DIMENSIONS
    if (state->moves) {
        reorder(state, context->counts, false, dense, value_of(context, state));
        return;
    }
#endif
    memcpy(dense, value_of(context, state), state->bytes);
}
