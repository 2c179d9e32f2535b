/* The panels of a block of A or B, into which it is packed. */
#ifndef MAVCG_BLAS_PANELS_H
#define MAVCG_BLAS_PANELS_H

#include <stdint.h>

#include "blas.h"

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

static inline int64_t at_most(int64_t value, int64_t most) { return value < most ? value : most; }

#endif
