/* A subgraph as a delegate kernel of TensorFlow Lite. */
#ifndef MAVCG_TFLITE_KERNEL_H
#define MAVCG_TFLITE_KERNEL_H

#include <stdbool.h>

#include "drop_in.h"
#include "internal.h"
#include "tflite_api.h"

/* A delegate. The structure that the runtime knows comes first. threads: as in struct part_contexts. */
struct own_delegate {
    tflite_delegate delegate;
    int threads;
    bool quiet;
};

/* True if these nodes are exactly those of the part. */
MAVCG_PRIVATE bool is_part(const struct drop_in_part *part, const tflite_ints *nodes);

/* True if the arguments of a subgraph have the types and shapes that its engine requires. */
MAVCG_PRIVATE bool fits_part(const tflite_context *context, const struct drop_in_part *part);

/* Return the functions of a delegate kernel. */
MAVCG_PRIVATE tflite_registration part_registration(void);

#endif
