/* Running the model. */
#ifndef MAVCG_ENGINE_RUN_H
#define MAVCG_ENGINE_RUN_H

#include <stddef.h>

#include "engine.h"
#include "internal.h"

/* Check the input and output pointers of a run, of tensors `in` and `out`. input_bytes, output_bytes: sizes to compare,
 * or NULL. Returns a status. */
MAVCG_PRIVATE int check_arrays(const mavcg_tensor *in, const void *const *inputs, const size_t *input_bytes,
                               const mavcg_tensor *out, void *const *outputs, const size_t *output_bytes);

/* Check the arguments of a run: the context, and the pointers as check_arrays does. Returns a status. */
MAVCG_PRIVATE int check_arguments(const struct mavcg_context *context, const void *const *inputs,
                                  const size_t *input_bytes, void *const *outputs, const size_t *output_bytes);

/* Run the model. step_ns: receives the time of each step in nanoseconds, or NULL. Returns a status. */
MAVCG_PRIVATE int run_model(struct mavcg_context *context, const void *const *inputs, void *const *outputs,
                            double *step_ns);

/* Run the context's phases for a frame of a pipeline; the caller must have acquired the context. step_ns: as for
 * run_model. Returns a status. */
MAVCG_PRIVATE int run_frame(struct mavcg_context *context, const void *const *inputs, void *const *outputs,
                            double *step_ns, uint64_t frame);

#endif
