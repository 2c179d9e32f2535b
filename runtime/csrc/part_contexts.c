/* Manages contexts of one subgraph for concurrent callers. */
#include "part_contexts.h"

#include <stdint.h>
#include <stdlib.h>

#include "internal.h"

struct pooled_context {
    struct pooled_context *next; /* constant once the entry is in the list */
    void *context;
    uint32_t used; /* 1 while a caller has it */
};

/* Make a context, and add it to the list. used: 1 if the caller keeps it. */
static int add_context(struct part_contexts *contexts, uint32_t used, struct pooled_context **made) {
    mavcg_options options = {.threads = contexts->threads};
    struct pooled_context *entry = calloc(1, sizeof *entry);
    if (!entry) return MAVCG_ERROR_MEMORY;
    int status = contexts->table->create(contexts->threads == LIBRARY_THREADS ? NULL : &options, &entry->context);
    if (status) {
        free(entry);
        return status;
    }
    entry->used = used;
    entry->next = __atomic_load_n(&contexts->first, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&contexts->first, &entry->next, entry, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    *made = entry;
    return MAVCG_OK;
}

MAVCG_PRIVATE int create_contexts(struct part_contexts *contexts, const mavcg_model_table *table, int threads,
                                  bool first) {
    struct pooled_context *made;
    *contexts = (struct part_contexts){table, threads, NULL};
    return first ? add_context(contexts, 0, &made) : MAVCG_OK;
}

/* Take a context that no caller has; make one if there is none. */
static int take_idle(struct part_contexts *contexts, struct pooled_context **taken) {
    struct pooled_context *entry = __atomic_load_n(&contexts->first, __ATOMIC_ACQUIRE);
    for (; entry; entry = entry->next) {
        uint32_t idle = 0;
        if (__atomic_compare_exchange_n(&entry->used, &idle, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            *taken = entry;
            return MAVCG_OK;
        }
    }
    return add_context(contexts, 1, taken);
}

MAVCG_PRIVATE int take_context(struct part_contexts *contexts, const int64_t *const *dims,
                               struct pooled_context **taken) {
    struct pooled_context *entry;
    int status = take_idle(contexts, &entry);
    if (status) return status;
    if (contexts->table->dimension_count) status = contexts->table->set_shape(entry->context, dims);
    if (status) leave_context(entry);
    else *taken = entry;
    return status;
}

MAVCG_PRIVATE const mavcg_tensor *taken_outputs(const struct part_contexts *contexts,
                                                const struct pooled_context *taken) {
    const mavcg_model_table *table = contexts->table;
    return table->dimension_count ? table->context_outputs(taken->context) : table->outputs;
}

MAVCG_PRIVATE int run_taken(struct part_contexts *contexts, struct pooled_context *taken, const void *const *inputs,
                            void *const *outputs) {
    int status = contexts->table->run(taken->context, inputs, outputs);
    leave_context(taken);
    return status;
}

MAVCG_PRIVATE void leave_context(struct pooled_context *taken) { __atomic_store_n(&taken->used, 0, __ATOMIC_RELEASE); }

MAVCG_PRIVATE void destroy_contexts(struct part_contexts *contexts) {
    for (struct pooled_context *entry = contexts->first, *next; entry; entry = next) {
        next = entry->next;
        if (!entry->used) contexts->table->destroy(entry->context); /* used: by a thread that a fork left behind */
        free(entry);
    }
}
