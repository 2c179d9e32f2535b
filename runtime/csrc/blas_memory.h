/* Buffers for packed panels, kept between calls. */
#ifndef MAVCG_BLAS_MEMORY_H
#define MAVCG_BLAS_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "internal.h"

/* A buffer of at least so many bytes at a page's start; bytes 0: the system has no memory. */
struct blas_buffer {
    char *start;
    size_t bytes;
};

MAVCG_PRIVATE struct blas_buffer take_buffer(size_t bytes);

/* Give a buffer back: for the next call, or to the system where enough are kept. */
MAVCG_PRIVATE void return_buffer(struct blas_buffer buffer);

#endif
