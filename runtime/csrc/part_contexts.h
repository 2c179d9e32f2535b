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

/* Take a context that no other caller is using, for inputs of these dimensions: of a subgraph without bounded
 * dimensions they are not read. Returns an enum mavcg_status; MAVCG_ERROR_SIZE for dimensions that do not fit. */
MAVCG_PRIVATE int take_context(struct part_contexts *contexts, const int64_t *const *dims,
                               struct pooled_context **taken);

/* Return the descriptions of the outputs of a taken context's next run. */
MAVCG_PRIVATE const mavcg_tensor *taken_outputs(const struct part_contexts *contexts,
                                                const struct pooled_context *taken);

/* Run the subgraph in a taken context, and give the context back. Returns an enum mavcg_status. */
MAVCG_PRIVATE int run_taken(struct part_contexts *contexts, struct pooled_context *taken, const void *const *inputs,
                            void *const *outputs);

/* Give a taken context back. */
MAVCG_PRIVATE void leave_context(struct pooled_context *taken);

/* Destroy all contexts. No run may be active. */
MAVCG_PRIVATE void destroy_contexts(struct part_contexts *contexts);

#endif
