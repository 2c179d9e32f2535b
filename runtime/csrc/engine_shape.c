/* Sets the lengths of a context's bounded dimensions. */
#include "engine_shape.h"

#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "engine_pool.h"
#include "engine_process.h"
#include "engine_state_rows.h"
#include "internal.h"

#if DIMENSIONS /* the model has bounded dimensions */

/* In place of the number of an input: the context keeps the length. */
static const uint32_t NO_INPUT = 0xFFFFFFFF;

/* Copy the descriptions of tensors, with their dimensions at `dims`. Returns the end of the dimensions. */
static int64_t *copy_tensors(mavcg_tensor *copies, int64_t *dims, const mavcg_tensor *tensors, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        copies[i] = tensors[i];
        copies[i].dims = dims;
        memcpy(dims, tensors[i].dims, (size_t)tensors[i].rank * sizeof *dims);
        dims += tensors[i].rank;
    }
    return dims;
}

/* Bounds of a dimension, in its steps. */
static int64_t least_steps(uint32_t dimension) { return dimension_table[dimension].least / dimension_steps[dimension]; }
static int64_t most_steps(uint32_t dimension) { return dimension_table[dimension].most / dimension_steps[dimension]; }

/* Read the lengths of the bounded dimensions, in their steps, from the dimensions of the inputs, which are not checked
 * otherwise. */
static int read_lengths(const struct mavcg_context *context, const int64_t *const *dims, int64_t *lengths) {
    for (uint32_t i = 0; i < INPUTS; i++)
        if (inputs_table[i].rank && !dims[i]) return MAVCG_ERROR_NULL;
    for (uint32_t i = 0; i < DIMENSIONS; i++) {
        const struct engine_length *from = &length_table[i];
        if (from->input == NO_INPUT) {
            lengths[i] = context->lengths[i];
            if (lengths[i] > most_steps(i)) return MAVCG_ERROR_SIZE;
            continue;
        }
        int64_t given = dims[from->input][from->axis];
        if (given < 0 || given > inputs_table[from->input].dims[from->axis]) return MAVCG_ERROR_SIZE;
        lengths[i] = (given - from->addend) / from->factor;
        int64_t length = lengths[i] * dimension_steps[i]; /* both below 2^31 (runtime/count_tables.py) */
        if (length < dimension_table[i].least || length > dimension_table[i].most) return MAVCG_ERROR_SIZE;
    }
    return MAVCG_OK;
}

/* Return true if the dimensions of all inputs are those of the counts. */
static bool dims_agree(const int64_t *const *dims, const uint32_t *counts) {
    const int32_t *number = inputs_counts;
    for (uint32_t i = 0; i < INPUTS; i++)
        for (int32_t axis = 0; axis < inputs_table[i].rank; axis++, number++)
            if (dims[i][axis] != (*number < 0 ? inputs_table[i].dims[axis] : counts[*number])) return false;
    return true;
}

/* Give tensors the dimensions of the counts. numbers: of the counts of their axes; -1: the axis is fixed. */
static void resize(mavcg_tensor *tensors, uint32_t count, const int32_t *numbers, const uint32_t *counts) {
    for (uint32_t i = 0; i < count; i++) {
        tensors[i].bytes = element_bytes[tensors[i].type];
        for (int32_t axis = 0; axis < tensors[i].rank; axis++, numbers++) {
            if (*numbers >= 0) ((int64_t *)tensors[i].dims)[axis] = counts[*numbers]; /* in the context's memory */
            tensors[i].bytes *= (uint64_t)tensors[i].dims[axis];
        }
    }
}

static void store_counts(struct mavcg_context *context, const uint32_t *counts) {
    for (uint32_t i = 0; i < COUNTS; i++) __atomic_store_n(&context->counts[i], counts[i], __ATOMIC_RELAXED);
}

/* Give the context's descriptions of tensors the dimensions of the counts. */
static void resize_all(struct mavcg_context *context, const uint32_t *counts) {
    resize(context->shaped, INPUTS, inputs_counts, counts);
    resize(context->shaped + INPUTS, OUTPUTS, outputs_counts, counts);
}

/* Returns true if they are others than before. */
static bool change_counts(struct mavcg_context *context, const uint32_t *counts) {
    if (memcmp(counts, context->counts, COUNTS * sizeof *counts) == 0) return false;
    leave_steps(context);
    move_states(context, counts);
    store_counts(context, counts);
    return true;
}

#if defined(MODEL_IN_APPLICATION) /* its stages follow the lengths of frames */
MAVCG_PRIVATE void set_counts(struct mavcg_context *context, const uint32_t *counts) { change_counts(context, counts); }
#endif

/* Take the lengths of the dimensions of the inputs, of an acquired context. */
static int take_shape(struct mavcg_context *context, const int64_t *const *dims) {
    int64_t lengths[DIMENSIONS];
    uint32_t counts[COUNTS];
    int status = read_lengths(context, dims, lengths);
    if (status) return status;
    add_counts(lengths, counts);
    if (!dims_agree(dims, counts)) return MAVCG_ERROR_SIZE;
    memcpy(context->lengths, lengths, sizeof lengths);
    if (change_counts(context, counts)) resize_all(context, counts);
    return MAVCG_OK;
}

MAVCG_PRIVATE int set_shape(struct mavcg_context *context, const int64_t *const *dims) {
    if (!dims) return MAVCG_ERROR_NULL;
    if (!acquire_context(context, this_process(context))) return MAVCG_BUSY;
    int status = take_shape(context, dims);
    release_context(context);
    return status;
}

#if KEPT /* states grow */

MAVCG_PRIVATE void read_kept(const struct mavcg_context *context, int64_t *kept) {
    for (uint32_t i = 0; i < KEPT; i++) kept[i] = context->lengths[kept_table[i].dimension];
}

MAVCG_PRIVATE void set_kept(struct mavcg_context *context, const int64_t *kept) {
    uint32_t counts[COUNTS];
    for (uint32_t i = 0; i < KEPT; i++) context->lengths[kept_table[i].dimension] = kept[i];
    add_counts(context->lengths, counts);
    if (memcmp(counts, context->counts, sizeof counts) == 0) return;
    leave_steps(context);
    store_counts(context, counts); /* states stay where they are: they are dense in the new lengths */
    resize_all(context, counts);
}

MAVCG_PRIVATE void reset_kept(struct mavcg_context *context) {
    int64_t kept[KEPT];
    for (uint32_t i = 0; i < KEPT; i++) kept[i] = least_steps(kept_table[i].dimension);
    set_kept(context, kept);
}

MAVCG_PRIVATE void grow_kept(struct mavcg_context *context) {
    int64_t kept[KEPT];
    for (uint32_t i = 0; i < KEPT; i++) kept[i] = context->counts[kept_table[i].next];
    set_kept(context, kept);
}

MAVCG_PRIVATE bool kept_exist(const int64_t *kept) {
    for (uint32_t i = 0; i < KEPT; i++)
        if (kept[i] < least_steps(kept_table[i].dimension) || kept[i] > kept_table[i].largest) return false;
    return true;
}

MAVCG_PRIVATE bool kept_fit(const struct mavcg_context *context) {
    for (uint32_t i = 0; i < KEPT; i++) {
        const uint32_t number = kept_table[i].dimension;
        if (context->lengths[number] > most_steps(number)) return false;
    }
    return true;
}

#endif

MAVCG_PRIVATE bool create_shape(struct mavcg_context *context) {
    mavcg_tensor *tensors = calloc(1, (INPUTS + OUTPUTS) * sizeof *tensors +
                                          (TENSOR_DIMS + DIMENSIONS) * sizeof(int64_t) + COUNTS * sizeof(uint32_t));
    if (!tensors) return false;
    context->shaped = tensors;
    context->inputs = tensors;
    context->outputs = tensors + INPUTS;
    int64_t *dims = copy_tensors(tensors, (int64_t *)(tensors + INPUTS + OUTPUTS), inputs_table, INPUTS);
    dims = copy_tensors(tensors + INPUTS, dims, outputs_table, OUTPUTS);
    context->lengths = dims;
    context->counts = (uint32_t *)(dims + DIMENSIONS);
    for (uint32_t i = 0; i < DIMENSIONS; i++) {
        bool kept = length_table[i].input == NO_INPUT;
        context->lengths[i] = kept ? least_steps(i) : most_steps(i);
    }
    add_counts(context->lengths, context->counts);
    resize_all(context, context->counts);
    return true;
}

MAVCG_PRIVATE void free_shape(struct mavcg_context *context) { free(context->shaped); }

#else

MAVCG_PRIVATE bool create_shape(struct mavcg_context *context) {
    context->inputs = inputs_table;
    context->outputs = outputs_table;
    return true;
}

MAVCG_PRIVATE void free_shape(struct mavcg_context *context) { (void)context; }

#endif
