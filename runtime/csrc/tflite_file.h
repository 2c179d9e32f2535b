/* Recognises the file that a library was built from. */
#ifndef MAVCG_TFLITE_FILE_H
#define MAVCG_TFLITE_FILE_H

#include <stdbool.h>

#include "internal.h"
#include "tflite_api.h"

/* True if the runtime read its graph from a file that is byte for byte the one that this library was built from. */
MAVCG_PRIVATE bool is_own_file(const tflite_context *context);

#endif
