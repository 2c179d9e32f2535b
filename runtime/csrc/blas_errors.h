/* Reports invalid arguments, by the program's xerbla if it has one. */
#ifndef MAVCG_BLAS_ERRORS_H
#define MAVCG_BLAS_ERRORS_H

#include <stdbool.h>
#include <stdint.h>

#include "internal.h"

/* Report an invalid argument of a Fortran routine. routine: its name in capitals, padded with blanks to 6 characters.
 * argument: number of the invalid argument, from 1. */
MAVCG_PRIVATE void report_argument(const char *routine, int64_t argument, bool wide);

/* Report an invalid argument of a CBLAS routine. name: with the prefix cblas_. argument: its number among the Fortran
 * routine's arguments. */
MAVCG_PRIVATE void report_cblas_argument(const char *name, int64_t argument, bool row_major, bool wide);

/* Report an invalid value of an enumeration argument of a CBLAS routine. number: the argument's number. form: printf
 * format of the message for `value`. */
MAVCG_PRIVATE void report_cblas_choice(const char *name, int64_t number, const char *form, int value, bool wide);

#endif
