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

/* Give a new context the longest lengths, but those that it keeps the least ones. Returns false without memory. */
MAVCG_PRIVATE bool create_shape(struct mavcg_context *context);
MAVCG_PRIVATE void free_shape(struct mavcg_context *context);

#if DIMENSIONS /* the model has bounded dimensions */
/* Take the lengths of the bounded dimensions from the shapes of the inputs. dims: for each input an array of its
 * dimensions. Returns a status; unless it is MAVCG_OK, the context keeps its lengths. */
MAVCG_PRIVATE int set_shape(struct mavcg_context *context, const int64_t *const *dims);

#if KEPT
/* Return and set the lengths that the context keeps, [KEPT], as an acquired context's: of states that grow. */
MAVCG_PRIVATE void read_kept(const struct mavcg_context *context, int64_t *kept);
MAVCG_PRIVATE void set_kept(struct mavcg_context *context, const int64_t *kept);

/* Set them to the least ones, or to those after the run that has ended. */
MAVCG_PRIVATE void reset_kept(struct mavcg_context *context);
MAVCG_PRIVATE void grow_kept(struct mavcg_context *context);

/* Return true if states may have saved lengths, and if the lengths that the context keeps leave room for a run. */
MAVCG_PRIVATE bool kept_exist(const int64_t *kept);
MAVCG_PRIVATE bool kept_fit(const struct mavcg_context *context);
#endif

#if defined(MODEL_IN_APPLICATION)
/* Give a context that the caller has acquired the counts of another context of the model. Its descriptions of tensors
 * stay. */
MAVCG_PRIVATE void set_counts(struct mavcg_context *context, const uint32_t *counts);
#endif
#endif

#endif
