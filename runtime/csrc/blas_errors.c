/* Reports errors by xerbla and cblas_xerbla of the program or of the next BLAS. This library exports neither: a
 * preloaded library's xerbla would hide the program's own. If there is none, prints the reference's message and ends
 * the program as the reference does. */
#include "blas_errors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { ROUTINE_CHARACTERS = 6 };

extern void xerbla_(const char *routine, const void *argument, size_t characters) MAVCG_WEAK_IMPORT;
extern void xerbla_64_(const char *routine, const int64_t *argument, size_t characters) MAVCG_WEAK_IMPORT;
extern void cblas_xerbla(int argument, const char *routine, const char *form, ...) MAVCG_WEAK_IMPORT;
/* Set to 1 during a row-major call: cblas_xerbla of the reference and of its tests then exchanges the argument numbers
 * itself. */
extern int RowMajorStrg MAVCG_WEAK_IMPORT;

MAVCG_PRIVATE void report_argument(const char *routine, int64_t argument, bool wide) {
    int32_t narrow = (int32_t)argument;
    if (wide && xerbla_64_) {
        xerbla_64_(routine, &argument, ROUTINE_CHARACTERS);
    } else if (xerbla_) { /* a caller built with 32-bit integers reads the low half: the same value */
        if (wide) xerbla_(routine, &argument, ROUTINE_CHARACTERS);
        else xerbla_(routine, &narrow, ROUTINE_CHARACTERS);
    } else {
        fprintf(stderr, " ** On entry to %.6s parameter number %2d had an illegal value\n", routine, narrow);
        exit(EXIT_FAILURE);
    }
}

/* Exchange the numbers of the arguments that a row-major call exchanges: M and N, and for matrix products also the
 * arguments of A and B. The number of a CBLAS argument includes the layout, which is argument 1. */
static int row_major_number(const char *name, int number) {
    static const int matrices[][2] = {{4, 5}, {9, 11}}, vector[][2] = {{3, 4}};
    const bool is_vector = strstr(name, "gemv") != NULL;
    const int(*pairs)[2] = is_vector ? vector : matrices;
    size_t count = is_vector ? sizeof vector / sizeof vector[0] : sizeof matrices / sizeof matrices[0];
    for (size_t i = 0; i < count; i++) {
        if (number == pairs[i][0]) return pairs[i][1];
        if (number == pairs[i][1]) return pairs[i][0];
    }
    return number;
}

MAVCG_PRIVATE void report_cblas_argument(const char *name, int64_t argument, bool row_major, bool wide) {
    int number = (int)argument + 1;
    (void)wide;
    if (!cblas_xerbla) {
        fprintf(stderr, "Parameter %d to routine %s was incorrect\n",
                row_major ? row_major_number(name, number) : number, name);
        exit(EXIT_FAILURE);
    }
    if (!row_major) {
        cblas_xerbla(number, name, "");
    } else if (&RowMajorStrg) {
        RowMajorStrg = 1;
        cblas_xerbla(number, name, "");
        RowMajorStrg = 0;
    } else {
        cblas_xerbla(row_major_number(name, number), name, "");
    }
}

MAVCG_PRIVATE void report_cblas_choice(const char *name, int64_t number, const char *form, int value, bool wide) {
    (void)wide;
    if (cblas_xerbla) {
        cblas_xerbla((int)number, name, form, value);
    } else {
        fprintf(stderr, "Parameter %d to routine %s was incorrect\n", (int)number, name);
        fprintf(stderr, form, value);
        exit(EXIT_FAILURE);
    }
}
