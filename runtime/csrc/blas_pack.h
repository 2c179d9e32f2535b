/* Copies blocks of A and B into panels, in the order in which register tiles read them. */
#ifndef MAVCG_BLAS_PACK_H
#define MAVCG_BLAS_PACK_H

#include <stdint.h>

#include "blas.h"
#include "internal.h"

/* The panels of a block: for each term in order, or pair of terms, `width` contiguous packed elements. The last panel
 * is as wide as the remaining lines, rounded up to a multiple of `round` and padded with zeros. */
struct blas_panels {
    enum blas_type type;
    int64_t item; /* size of a packed element, in bytes */
    int64_t width, round, count, terms;
    int64_t line_stride, term_stride; /* strides of the source, in bytes; one of the two is the size of an element */
    const char *from;
    char *to;
};

/* Transpose `used` lines of `terms` contiguous elements each, into panels of `width` elements. Needs only the panels'
 * item, terms and line_stride, and width for prefetches of the lines of a next panel. */
MAVCG_PRIVATE void transpose_lines(const struct blas_panels *panels, char *to, const char *from, int64_t used,
                                   int64_t width);

/* Return the number of panels. */
MAVCG_PRIVATE int64_t panel_count(const struct blas_panels *panels);

/* Pack panels first to last - 1; half precision is converted to f32, or packed in pairs. */
MAVCG_PRIVATE void pack_panels(const struct blas_panels *panels, int64_t first, int64_t last);

#endif
