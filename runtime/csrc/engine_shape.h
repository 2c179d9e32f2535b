/* The shapes of a context's inputs and outputs.
 *
 * Without bounded dimensions both are fixed. With some they follow from the context's lengths, which the caller sets
 * between runs; the memory is that of the longest ones. */
#ifndef MAVCG_ENGINE_SHAPE_H
#define MAVCG_ENGINE_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine.h"
#include "internal.h"

/* Give a new context the longest lengths. Returns false without memory. */
MAVCG_PRIVATE bool create_shape(struct mavcg_context *context);
MAVCG_PRIVATE void free_shape(struct mavcg_context *context);

#if DIMENSIONS /* the model has bounded dimensions */
/* Take the lengths of the bounded dimensions from the shapes of the inputs. dims: for each input an array of its
 * dimensions. Returns a status; unless it is MAVCG_OK, the context keeps its lengths. */
MAVCG_PRIVATE int set_shape(struct mavcg_context *context, const int64_t *const *dims);

#if defined(MODEL_IN_APPLICATION)
/* Give a context that the caller has acquired the counts of another context of the model. Its descriptions of tensors
 * stay. */
MAVCG_PRIVATE void set_counts(struct mavcg_context *context, const uint32_t *counts);
#endif
#endif

#endif
