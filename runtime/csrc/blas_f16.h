/* Products whose A, B, C and scalars are f16. */
#ifndef MAVCG_BLAS_F16_H
#define MAVCG_BLAS_F16_H

#include "blas.h"
#include "internal.h"

/* Compute a product of BLAS_ALL_F16, whose scalars are f16. */
MAVCG_PRIVATE void compute_f16_product(const struct blas_product *product);

#endif
