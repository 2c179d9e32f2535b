/* The product of a transposed A and few columns. */
#ifndef MAVCG_BLAS_DOTS_H
#define MAVCG_BLAS_DOTS_H

#include <stdbool.h>

#include "blas.h"
#include "blas_team.h"
#include "internal.h"

/* Whether a product is computed so; by its sizes alone, so that results are the same bits on all cores. */
MAVCG_PRIVATE bool is_product_of_dots(const struct blas_product *p);
/* team: NULL for this thread alone. */
MAVCG_PRIVATE void compute_dots(const struct blas_product *p, struct blas_team *team);

#endif
