/* Contexts: the memory and threads that runs of the model need. */
#ifndef MAVCG_ENGINE_CONTEXT_H
#define MAVCG_ENGINE_CONTEXT_H

#include "engine.h"
#include "internal.h"

/* Create a context; options NULL: the defaults. Returns a status; *created is NULL on failure. */
MAVCG_PRIVATE int create_context(const mavcg_options *options, struct mavcg_context **created);

/* Stop its threads and free it. Returns the argument for unload_library, or NULL. */
MAVCG_PRIVATE void *destroy_context(struct mavcg_context *context);

#endif
