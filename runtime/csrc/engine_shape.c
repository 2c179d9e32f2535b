/* Sets the length of a context's bounded dimension. */
#include "engine_shape.h"

#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "engine_pool.h"
#include "engine_process.h"
#include "internal.h"

#if LONGEST /* the model has a bounded dimension */

MAVCG_PRIVATE uint32_t phase_rows(const struct mavcg_context *context, uint32_t phase) {
    uint32_t per_index = rows_per_index[phase];
    /* Atomic for threads that read it without a use, while they find no rows left (leave_steps). */
    return per_index ? per_index * __atomic_load_n(&context->length, __ATOMIC_RELAXED) : run_table[phase].rows;
}

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

MAVCG_PRIVATE bool create_shape(struct mavcg_context *context) {
    mavcg_tensor *tensors = calloc(1, (INPUTS + OUTPUTS) * sizeof *tensors + TENSOR_DIMS * sizeof(int64_t));
    if (!tensors) return false;
    context->length = LONGEST;
    context->shaped = tensors;
    context->inputs = tensors;
    context->outputs = tensors + INPUTS;
    int64_t *dims = copy_tensors(tensors, (int64_t *)(tensors + INPUTS + OUTPUTS), inputs_table, INPUTS);
    copy_tensors(tensors + INPUTS, dims, outputs_table, OUTPUTS);
    return true;
}

MAVCG_PRIVATE void free_shape(struct mavcg_context *context) { free(context->shaped); }

/* Read the length of the bounded dimension from the dimensions of an input. *length: 0, or that of earlier inputs. */
static int read_length(const mavcg_tensor *longest, int32_t bounded_axis, const int64_t *dims, int64_t *length) {
    if (longest->rank && !dims) return MAVCG_ERROR_NULL;
    for (int32_t axis = 0; axis < longest->rank; axis++) {
        if (axis != bounded_axis) {
            if (dims[axis] != longest->dims[axis]) return MAVCG_ERROR_SIZE;
            continue;
        }
        int64_t per_index = longest->dims[axis] / LONGEST;
        if (dims[axis] < 1 || dims[axis] % per_index) return MAVCG_ERROR_SIZE;
        if (*length && *length != dims[axis] / per_index) return MAVCG_ERROR_SIZE;
        *length = dims[axis] / per_index;
    }
    return MAVCG_OK;
}

/* Give tensors the length. longest: the same tensors at the longest length. */
static void resize(mavcg_tensor *tensors, const mavcg_tensor *longest, const int32_t *bounded_axes, uint32_t count,
                   uint32_t length) {
    for (uint32_t i = 0; i < count; i++) {
        int32_t axis = bounded_axes[i];
        if (axis < 0) continue;
        ((int64_t *)tensors[i].dims)[axis] = longest[i].dims[axis] / LONGEST * length; /* in the context's memory */
        tensors[i].bytes = longest[i].bytes / LONGEST * length;
    }
}

MAVCG_PRIVATE int set_shape(struct mavcg_context *context, const int64_t *const *dims) {
    if (INPUTS && !dims) return MAVCG_ERROR_NULL;
    int64_t length = 0;
    for (uint32_t i = 0; i < INPUTS; i++) {
        int status = read_length(&inputs_table[i], inputs_axes[i], dims[i], &length);
        if (status) return status;
    }
    if (length < dimension_table[0].least || length > dimension_table[0].most) return MAVCG_ERROR_SIZE;
    if (!acquire_context(context, this_process(context))) return MAVCG_BUSY;
    if (length != context->length) {
        leave_steps(context);
        __atomic_store_n(&context->length, (uint32_t)length, __ATOMIC_RELAXED);
        resize(context->shaped, inputs_table, inputs_axes, INPUTS, context->length);
        resize(context->shaped + INPUTS, outputs_table, outputs_axes, OUTPUTS, context->length);
    }
    release_context(context);
    return MAVCG_OK;
}

#else

MAVCG_PRIVATE uint32_t phase_rows(const struct mavcg_context *context, uint32_t phase) {
    (void)context;
    return run_table[phase].rows;
}

MAVCG_PRIVATE bool create_shape(struct mavcg_context *context) {
    context->inputs = inputs_table;
    context->outputs = outputs_table;
    return true;
}

MAVCG_PRIVATE void free_shape(struct mavcg_context *context) { (void)context; }

#endif
