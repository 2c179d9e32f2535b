/* Copies blocks of A and B into panels, in the order in which register tiles read them. */
#ifndef MAVCG_BLAS_PACK_H
#define MAVCG_BLAS_PACK_H

#include <stdint.h>

#include "blas_panels.h"
#include "internal.h"

/* Return the number of panels. */
MAVCG_PRIVATE int64_t panel_count(const struct blas_panels *panels);

/* Pack panels first to last - 1; half precision is converted to f32, or packed in pairs. */
MAVCG_PRIVATE void pack_panels(const struct blas_panels *panels, int64_t first, int64_t last);

#endif
