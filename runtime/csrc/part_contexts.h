/* Contexts of one subgraph for callers that run at the same time. */
#ifndef MAVCG_PART_CONTEXTS_H
#define MAVCG_PART_CONTEXTS_H

#include <pthread.h>
#include <stdbool.h>

#include "drop_in.h"
#include "internal.h"

enum { LIBRARY_THREADS = -1 /* as many threads as the library was built for */ };

struct idle_context;

/* idle: contexts that no run uses. A context does one run at a time; a second caller gets another. */
struct part_contexts {
    const mavcg_model_table *table;
    int threads; /* of each context, or LIBRARY_THREADS */
    pthread_mutex_t lock;
    struct idle_context *idle;
};

/* Begin with no context, or with one, which `first` requests. Returns an enum mavcg_status. */
MAVCG_PRIVATE int create_contexts(struct part_contexts *contexts, const mavcg_model_table *table, int threads,
                                  bool first);

/* Run the subgraph in a context that no other caller uses. Returns an enum mavcg_status. */
MAVCG_PRIVATE int run_part(struct part_contexts *contexts, const void *const *inputs, void *const *outputs);

/* Destroy all contexts; no run may be active. */
MAVCG_PRIVATE void destroy_contexts(struct part_contexts *contexts);

#endif
