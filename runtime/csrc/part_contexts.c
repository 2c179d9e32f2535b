/* Manages contexts of one subgraph for concurrent callers. */
#include "part_contexts.h"

#include <stdlib.h>

#include "internal.h"

struct idle_context {
    struct idle_context *next;
    void *context;
};

static int new_context(const struct part_contexts *contexts, struct idle_context **made) {
    mavcg_options options = {.threads = contexts->threads};
    struct idle_context *entry = calloc(1, sizeof *entry);
    if (!entry) return MAVCG_ERROR_MEMORY;
    int status = contexts->table->create(contexts->threads == LIBRARY_THREADS ? NULL : &options, &entry->context);
    if (status) free(entry);
    else *made = entry;
    return status;
}

MAVCG_PRIVATE int create_contexts(struct part_contexts *contexts, const mavcg_model_table *table, int threads,
                                  bool first) {
    contexts->table = table;
    contexts->threads = threads;
    contexts->idle = NULL;
    if (pthread_mutex_init(&contexts->lock, NULL)) return MAVCG_ERROR_MEMORY;
    int status = first ? new_context(contexts, &contexts->idle) : MAVCG_OK;
    if (status) pthread_mutex_destroy(&contexts->lock);
    return status;
}

MAVCG_PRIVATE int run_part(struct part_contexts *contexts, const void *const *inputs, void *const *outputs) {
    struct idle_context *entry;
    pthread_mutex_lock(&contexts->lock);
    entry = contexts->idle;
    if (entry) contexts->idle = entry->next;
    pthread_mutex_unlock(&contexts->lock);
    int status = entry ? MAVCG_OK : new_context(contexts, &entry);
    if (status) return status;
    status = contexts->table->run(entry->context, inputs, outputs);
    pthread_mutex_lock(&contexts->lock);
    entry->next = contexts->idle;
    contexts->idle = entry;
    pthread_mutex_unlock(&contexts->lock);
    return status;
}

MAVCG_PRIVATE void destroy_contexts(struct part_contexts *contexts) {
    for (struct idle_context *entry = contexts->idle, *next; entry; entry = next) {
        next = entry->next;
        contexts->table->destroy(entry->context);
        free(entry);
    }
    pthread_mutex_destroy(&contexts->lock);
}
