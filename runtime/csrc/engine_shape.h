/* The shapes of a context's inputs and outputs, and the rows of its steps.
 *
 * Without a bounded dimension both are fixed. With one they follow from the context's length, which the caller sets
 * between runs; the memory is that of the longest length. */
#ifndef MAVCG_ENGINE_SHAPE_H
#define MAVCG_ENGINE_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine.h"
#include "internal.h"

/* Give a new context the shapes of the longest length. Returns false without memory. */
MAVCG_PRIVATE bool create_shape(struct mavcg_context *context);
MAVCG_PRIVATE void free_shape(struct mavcg_context *context);

#if LONGEST /* the model has a bounded dimension */
/* Take the length of the bounded dimension from the shapes of the inputs. dims: for each input an array of its
 * dimensions. Returns a status; unless it is MAVCG_OK, the context keeps its length. */
MAVCG_PRIVATE int set_shape(struct mavcg_context *context, const int64_t *const *dims);
#endif

/* Return the rows of a phase at the context's length. */
MAVCG_PRIVATE uint32_t phase_rows(const struct mavcg_context *context, uint32_t phase);

#endif
