/* Recognises the ONNX file that a library was built from. */
#ifndef MAVCG_ORT_MODEL_H
#define MAVCG_ORT_MODEL_H

#include <stdbool.h>

#include "internal.h"

/* True if the file, and the files of external data beside it, are byte for byte those that this library was built
 * from. */
MAVCG_PRIVATE bool is_own_model(const char *path);

#endif
