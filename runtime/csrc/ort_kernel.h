/* A subgraph as a kernel of ONNX Runtime. */
#ifndef MAVCG_ORT_KERNEL_H
#define MAVCG_ORT_KERNEL_H

#include "drop_in.h"
#include "internal.h"
#include "ort_api.h"

/* An operator of ONNX Runtime. op comes first because its callbacks receive its address. threads: as in struct
 * part_contexts. */
struct ort_part {
    struct ort_custom_op op;
    const struct drop_in_op *own;
    int threads;
};

/* Create an error with a formatted message, as a status of the runtime. */
MAVCG_PRIVATE ort_status *ort_error(const struct ort_api *api, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

MAVCG_PRIVATE ort_status *create_ort_kernel(const struct ort_custom_op *op, const struct ort_api *api,
                                            const ort_kernel_info *info, void **kernel);

/* Positions of a subgraph's arguments among those of the runtime's node. */
struct ort_positions {
    uint32_t inputs[MAX_INPUTS + 1], outputs[MAX_OUTPUTS + 1];
};

/* Create a kernel. The first size gets a context at once, the other sizes when they first run. threads: as in struct
 * part_contexts. */
MAVCG_PRIVATE ort_status *new_ort_kernel(const struct ort_api *api, const struct drop_in_op *op, int threads,
                                         const struct ort_positions *positions, void **kernel);
MAVCG_PRIVATE ort_status *compute_ort_kernel(void *kernel, ort_kernel_context *context);
MAVCG_PRIVATE void destroy_ort_kernel(void *kernel);

#endif
