/* Makes outputs dense at the lengths that a run has decided, and describes them. */
#include "engine_counted.h"

#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "internal.h"

#if COUNTED_OUTPUTS

MAVCG_PRIVATE bool create_counted(struct mavcg_context *context) {
    mavcg_tensor *tensors = calloc(1, OUTPUTS * sizeof *tensors + (TENSOR_DIMS + COUNTED) * sizeof(int64_t));
    if (!tensors) return false;
    int64_t *dims = (int64_t *)(tensors + OUTPUTS);
    context->counted = dims + TENSOR_DIMS;
    context->present = tensors;
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        tensors[i] = outputs_table[i];
        tensors[i].dims = dims;
        memcpy(dims, outputs_table[i].dims, (size_t)tensors[i].rank * sizeof *dims);
        dims += tensors[i].rank;
    }
    return true;
}

MAVCG_PRIVATE void free_counted(struct mavcg_context *context) { free(context->present); }

MAVCG_PRIVATE void take_counted(struct mavcg_context *context, void *const *outputs) {
    for (uint32_t i = 0; i < COUNTED_OUTPUTS; i++) {
        uint32_t output = counted_table[i].output;
        const mavcg_tensor *longest = &outputs_table[output];
        int64_t length = context->counted[counted_words[i]], most = longest->dims[counted_table[i].axis];
        if (length < 0) length = 0;
        if (length > most) length = most;
        size_t parts = 1, index_bytes = element_bytes[longest->type];
        for (int32_t axis = 0; axis < longest->rank; axis++) {
            if (axis < counted_table[i].axis) parts *= (size_t)longest->dims[axis];
            if (axis > counted_table[i].axis) index_bytes *= (size_t)longest->dims[axis];
        }
        mavcg_tensor *present = &context->present[output];
        ((int64_t *)present->dims)[counted_table[i].axis] = length; /* in the context's memory */
        present->bytes = parts * (size_t)length * index_bytes;
        char *array = outputs[output];
        for (size_t part = 1; part < parts && present->bytes; part++)
            memmove(array + part * (size_t)length * index_bytes, array + part * (size_t)most * index_bytes,
                    (size_t)length * index_bytes);
    }
}

#else

MAVCG_PRIVATE bool create_counted(struct mavcg_context *context) {
    (void)context;
    return true;
}

MAVCG_PRIVATE void free_counted(struct mavcg_context *context) { (void)context; }

MAVCG_PRIVATE void take_counted(struct mavcg_context *context, void *const *outputs) {
    (void)context;
    (void)outputs;
}

#endif
