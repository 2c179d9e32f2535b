/* Contexts: the memory and threads for runs of the model. */
#ifndef MAVCG_ENGINE_CONTEXT_H
#define MAVCG_ENGINE_CONTEXT_H

#include <stdint.h>

#include "application_memory.h"
#include "engine.h"
#include "internal.h"

/* The number of threads of a context, and the plan it comes from, or NULL. cpus: number of CPUs that the calling thread
 * may use. */
struct thread_choice {
    const struct engine_plan *plan;
    uint32_t threads, cpus;
};

/* Check a context's options and choose its threads, by the options and the CPUs that the calling thread may use at
 * present. options: NULL for the defaults. Returns a status. */
MAVCG_PRIVATE int choose_threads(const mavcg_options *options, struct thread_choice *choice);

/* Create a context. options: NULL for the defaults. shared: the memory of its application, which must outlive the
 * context; NULL: the context allocates its own. Returns a status; *created is NULL on failure. */
MAVCG_PRIVATE int create_context(const mavcg_options *options, const struct shared_memory *shared,
                                 struct mavcg_context **created);

/* Stop the context's threads and free it. Returns the argument for unload_library, or NULL. */
MAVCG_PRIVATE void *destroy_context(struct mavcg_context *context);

#endif
