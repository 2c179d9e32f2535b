/* The matrix product, for all sizes: small products read A and B unpacked, large ones are blocked and packed. */
#ifndef MAVCG_BLAS_PRODUCT_H
#define MAVCG_BLAS_PRODUCT_H

#include "blas.h"
#include "internal.h"

MAVCG_PRIVATE void compute_product(const struct blas_product *product);

#endif
