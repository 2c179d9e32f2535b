/* Contexts of one subgraph for concurrent callers. */
#ifndef MAVCG_PART_CONTEXTS_H
#define MAVCG_PART_CONTEXTS_H

#include <stdbool.h>

#include "drop_in.h"
#include "internal.h"

enum { LIBRARY_THREADS = -1 /* as many threads as the library was built for */ };

struct pooled_context;

/* A pool of contexts. A context executes one run at a time, so each concurrent caller gets its own. first: a list to
 * which contexts are added only. There is no lock that a fork could leave taken: in a child, the contexts of the
 * parent's other threads stay in use for ever, and its own callers get others. */
struct part_contexts {
    const mavcg_model_table *table;
    int threads; /* of each context, or LIBRARY_THREADS */
    struct pooled_context *first;
};

/* Initialise the pool: with one context if `first` is true, else empty. Returns an enum mavcg_status. */
MAVCG_PRIVATE int create_contexts(struct part_contexts *contexts, const mavcg_model_table *table, int threads,
                                  bool first);

/* Run the subgraph in a context that no other caller is using. Returns an enum mavcg_status. */
MAVCG_PRIVATE int run_part(struct part_contexts *contexts, const void *const *inputs, void *const *outputs);

/* Destroy all contexts. No run may be active. */
MAVCG_PRIVATE void destroy_contexts(struct part_contexts *contexts);

#endif
