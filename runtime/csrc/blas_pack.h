/* Copies blocks of A and B into panels, in the order in which register tiles read them. */
#ifndef MAVCG_BLAS_PACK_H
#define MAVCG_BLAS_PACK_H

#include <stdint.h>

#include "blas.h"
#include "internal.h"

/* The panels of a block: for each term in order, `width` contiguous elements. The last panel is as wide as the
 * remaining lines, rounded up to a multiple of `round` and padded with zeros. */
struct blas_panels {
    int64_t item, width, round, count, terms;
    int64_t line_stride, term_stride; /* strides of the source, in bytes; one of the two equals `item` */
    const char *from;
    char *to;
};

/* Return the number of panels. */
MAVCG_PRIVATE int64_t panel_count(const struct blas_panels *panels);

/* Pack panels first to last - 1. */
MAVCG_PRIVATE void pack_panels(const struct blas_panels *panels, int64_t first, int64_t last);

#endif
