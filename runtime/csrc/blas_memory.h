/* Buffers for packed panels, reused by later calls. */
#ifndef MAVCG_BLAS_MEMORY_H
#define MAVCG_BLAS_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "internal.h"

/* A page-aligned buffer of at least the requested size; bytes is 0 if the system has no memory. */
struct blas_buffer {
    char *start;
    size_t bytes;
};

MAVCG_PRIVATE struct blas_buffer take_buffer(size_t bytes);

/* Return a buffer: it is kept for the next call, or freed if enough are kept. */
MAVCG_PRIVATE void return_buffer(struct blas_buffer buffer);

#endif
