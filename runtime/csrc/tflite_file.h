/* Recognises the file that a library was built of. */
#ifndef MAVCG_TFLITE_FILE_H
#define MAVCG_TFLITE_FILE_H

#include <stdbool.h>

#include "internal.h"
#include "tflite_api.h"

/* True if the runtime's graph was read from the file that this library was built of, byte for byte. */
MAVCG_PRIVATE bool is_own_file(const tflite_context *context);

#endif
