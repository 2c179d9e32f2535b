/* Recognises the file that a library was built from. */
#ifndef MAVCG_TFLITE_FILE_H
#define MAVCG_TFLITE_FILE_H

#include <stdbool.h>

#include "drop_in.h"
#include "internal.h"
#include "tflite_api.h"

/* True if the runtime's graph is this one of the library's, read from a file that is byte for byte the one that the
 * library was built from. */
MAVCG_PRIVATE bool is_own_graph(const tflite_context *context, const struct drop_in_graph *graph);

#endif
