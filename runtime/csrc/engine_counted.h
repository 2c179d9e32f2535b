/* Outputs of whose length along an axis each run decides, such as the number of boxes that a detector finds.
 *
 * The caller's array has memory for the longest. A run writes the length to a word of the context; after it the array is
 * dense with that length, and the context's description of the output has it. */
#ifndef MAVCG_ENGINE_COUNTED_H
#define MAVCG_ENGINE_COUNTED_H

#include <stdbool.h>

#include "engine.h"
#include "internal.h"

/* Give a new context its words, and descriptions of outputs of the longest lengths. Returns false without memory. */
MAVCG_PRIVATE bool create_counted(struct mavcg_context *context);
MAVCG_PRIVATE void free_counted(struct mavcg_context *context);

/* Make the outputs of a run that has ended dense, and describe them. */
MAVCG_PRIVATE void take_counted(struct mavcg_context *context, void *const *outputs);

#endif
