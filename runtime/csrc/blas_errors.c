/* Calls xerbla and cblas_xerbla of the program or of the next BLAS. Neither is exported: a program's own would be hidden
 * by a preloaded library. Without any, the message is that of the reference, and the program ends as it does there. */
#include "blas_errors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { ROUTINE_CHARACTERS = 6 };

extern void xerbla_(const char *routine, const void *argument, size_t characters) MAVCG_WEAK_IMPORT;
extern void xerbla_64_(const char *routine, const int64_t *argument, size_t characters) MAVCG_WEAK_IMPORT;
extern void cblas_xerbla(int argument, const char *routine, const char *form, ...) MAVCG_WEAK_IMPORT;
/* By these the reference's cblas_xerbla, and that of its tests, know that numbers are to be exchanged for row-major. */
extern int RowMajorStrg MAVCG_WEAK_IMPORT;

MAVCG_PRIVATE void report_argument(const char *routine, int64_t argument, bool wide) {
    int32_t narrow = (int32_t)argument;
    if (wide && xerbla_64_) {
        xerbla_64_(routine, &argument, ROUTINE_CHARACTERS);
    } else if (xerbla_) { /* with --ilp64 the program's integers have 64 bits: the first 32 are the same */
        if (wide) xerbla_(routine, &argument, ROUTINE_CHARACTERS);
        else xerbla_(routine, &narrow, ROUTINE_CHARACTERS);
    } else {
        fprintf(stderr, " ** On entry to %.6s parameter number %2d had an illegal value\n", routine, narrow);
        exit(EXIT_FAILURE);
    }
}

/* Exchanged are M and N, and of a product of matrices what belongs to A and to B; numbers count the order as the first
 * argument. */
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
