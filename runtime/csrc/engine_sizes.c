/* Defines the exported functions of a library that has one model in several sizes. */
#include <string.h>

#include "engine_api.h"
#include "sizes_api.h"

#include "mavcg_sizes.h" /* generated, see runtime/drop_in_text.py */

#define EXPORT __attribute__((visibility("default")))

static const mavcg_sizes_table sizes = {MAVCG_SIZES_API, SIZES, size_tables};

EXPORT const mavcg_sizes_table *mavcg_sizes_api(void) { return &sizes; }
EXPORT const mavcg_model_table *mavcg_model_api(void) { return size_tables[0]; }

EXPORT const mavcg_model_table *mavcg_find_size(const int64_t *const *dims) {
    if (!dims) return NULL;
    for (uint32_t size = 0; size < SIZES; size++) {
        const mavcg_model_table *table = size_tables[size];
        uint32_t fitting = 0;
        for (uint32_t i = 0; i < table->input_count; i++) {
            const mavcg_tensor *tensor = &table->inputs[i];
            size_t bytes = (size_t)tensor->rank * sizeof *tensor->dims;
            if (!bytes || (dims[i] && !memcmp(dims[i], tensor->dims, bytes))) fitting++;
        }
        if (fitting == table->input_count) return table;
    }
    return NULL;
}

/* Export the functions under the model's name too, for programs that use several such libraries. */
#define NAMED(name, function)                                             \
    extern __typeof__(function) named_##name __asm__(MODEL_API "_" #name) \
        __attribute__((alias(#function), visibility("default")))

NAMED(sizes, mavcg_sizes_api);
NAMED(find_size, mavcg_find_size);
