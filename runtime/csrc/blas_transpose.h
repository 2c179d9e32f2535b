/* Transposes lines of contiguous terms into panels. */
#ifndef MAVCG_BLAS_TRANSPOSE_H
#define MAVCG_BLAS_TRANSPOSE_H

#include <stdint.h>

#include "blas_panels.h"
#include "internal.h"

/* Transpose `used` lines of `terms` contiguous elements each, into panels of `width` elements. Needs only the panels'
 * item, terms and line_stride, and width for prefetches of the lines of a next panel. */
MAVCG_PRIVATE void transpose_lines(const struct blas_panels *panels, char *to, const char *from, int64_t used,
                                   int64_t width);

#endif
