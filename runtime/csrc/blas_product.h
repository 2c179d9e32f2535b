/* The matrix product: from small ones, computed as they lie in memory, to blocks that are packed. */
#ifndef MAVCG_BLAS_PRODUCT_H
#define MAVCG_BLAS_PRODUCT_H

#include "blas.h"
#include "internal.h"

MAVCG_PRIVATE void compute_product(const struct blas_product *product);

#endif
