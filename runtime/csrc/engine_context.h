/* Contexts: the memory and threads that runs of the model need. */
#ifndef MAVCG_ENGINE_CONTEXT_H
#define MAVCG_ENGINE_CONTEXT_H

#include <stdint.h>

#include "application_memory.h"
#include "engine.h"
#include "internal.h"

/* A context's threads: their number, and the plan that it comes from or NULL; cpus: that the calling thread may use. */
struct thread_choice {
    const struct engine_plan *plan;
    uint32_t threads, cpus;
};

/* Check a context's options, and choose its threads by them and the CPUs that the calling thread may use here and now.
 * options NULL: the defaults. Returns a status. */
MAVCG_PRIVATE int choose_threads(const mavcg_options *options, struct thread_choice *choice);

/* Create a context; options NULL: the defaults. shared: the memory of its application, which outlives it; NULL: the
 * context gets memory of its own. Returns a status; *created is NULL on failure. */
MAVCG_PRIVATE int create_context(const mavcg_options *options, const struct shared_memory *shared,
                                 struct mavcg_context **created);

/* Stop its threads and free it. Returns the argument for unload_library, or NULL. */
MAVCG_PRIVATE void *destroy_context(struct mavcg_context *context);

#endif
