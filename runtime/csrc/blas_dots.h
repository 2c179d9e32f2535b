/* The product of a transposed A and a B of few columns, by dot products. */
#ifndef MAVCG_BLAS_DOTS_H
#define MAVCG_BLAS_DOTS_H

#include <stdbool.h>

#include "blas.h"
#include "blas_team.h"
#include "internal.h"

/* True if a product is computed by dot products. The decision depends on its sizes alone, so that all cores compute the
 * same bits. */
MAVCG_PRIVATE bool is_product_of_dots(const struct blas_product *p);
/* Compute a product by dot products. team: NULL to use only the calling thread. */
MAVCG_PRIVATE void compute_dots(const struct blas_product *p, struct blas_team *team);

#endif
