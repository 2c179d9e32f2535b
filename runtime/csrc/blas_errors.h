/* Reports bad arguments, through the program's xerbla where it has one. */
#ifndef MAVCG_BLAS_ERRORS_H
#define MAVCG_BLAS_ERRORS_H

#include <stdbool.h>
#include <stdint.h>

#include "internal.h"

/* routine: its name in capitals, 6 characters with blanks. argument: number of the bad one, from 1. */
MAVCG_PRIVATE void report_argument(const char *routine, int64_t argument, bool wide);

/* The same of a CBLAS routine, with its number among the Fortran routine's arguments. name: with cblas_. */
MAVCG_PRIVATE void report_cblas_argument(const char *name, int64_t argument, bool row_major, bool wide);

/* An enumeration's value is none of its own. number: the argument's; what: its name for people. */
MAVCG_PRIVATE void report_cblas_choice(const char *name, int64_t number, const char *form, int value, bool wide);

#endif
