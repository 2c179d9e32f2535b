/* Runs a program with two bounded dimensions at all their lengths, and with shapes that do not fit. Argument: threads.
 * Prints "ok". */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exercise.h"
#include "need.h"

enum { ROWS = 6, COLUMNS = 8 }; /* as in test_lengths.py */

static int set(exercise_context *context, int64_t rows, int64_t columns, int64_t depth, int64_t twice) {
    const int64_t x[] = {rows, columns, depth}, y[] = {twice}, *dims[] = {x, y};
    return exercise_set_shape(context, dims);
}

/* A chunk of all rows is computed in calls of 8 rows, the last of which takes a rest of at most 2. */
static void check_calls(const int32_t *spans, int64_t rows) {
    int64_t rest = rows % 8, joined = rows > 8 && rest && rest <= 2 ? 8 : 0, last = rest + joined;
    for (int64_t i = 0; i < rows; i++) NEED(spans[i] == (i < rows - last ? 8 : last));
}

/* Chunks of any number of rows: no call has more rows than ten, and each has as many as say so. */
static void check_shared_calls(const int32_t *spans, int64_t rows) {
    for (int64_t i = 0; i < rows; i += spans[i]) {
        NEED(spans[i] >= 1 && spans[i] <= 10 && spans[i] <= rows - i);
        for (int64_t j = 1; j < spans[i]; j++) NEED(spans[i + j] == spans[i]);
    }
}

/* The sizes and results of the lengths that the context has. */
static void check(exercise_context *context, int64_t rows, int64_t columns) {
    const mavcg_tensor *in = exercise_context_inputs(context), *out = exercise_context_outputs(context);
    int64_t cells = rows * columns, halves = (rows + 2) / 2;
    NEED(in[0].dims[0] == rows && in[0].dims[1] == columns && in[0].bytes == (uint64_t)cells * 3 * 4);
    NEED(in[1].dims[0] == 2 * columns + 1 && in[1].bytes == (uint64_t)(2 * columns + 1) * 4);
    NEED(out[0].dims[0] == cells && out[0].bytes == (uint64_t)cells * 4);
    NEED(out[1].dims[0] == halves && out[1].bytes == (uint64_t)halves * 4);
    /* exactly as large: a sanitizer sees what is more */
    int32_t *p = malloc(out[0].bytes), *q = malloc(out[1].bytes);
    int32_t *whole = malloc(out[2].bytes), *shared = malloc(out[3].bytes);
    static float given[ROWS * COLUMNS * 3];
    const void *inputs[] = {given, given};
    void *outputs[] = {p, q, whole, shared};
    NEED(p && q && whole && shared);
    int status = exercise_run(context, inputs, outputs);
    if (status) fprintf(stderr, "%s\n", exercise_error_text(status));
    NEED(status == MAVCG_OK);
    for (int64_t i = 0; i < cells; i++) NEED(p[i] == 2 * columns + 1);
    for (int64_t i = 0; i < halves; i++) NEED(q[i] == rows * columns);
    check_calls(whole, cells);
    check_shared_calls(shared, cells);
    free(p), free(q), free(whole), free(shared);
}

int main(int argc, char **argv) {
    mavcg_options options = {.threads = argc > 1 ? atoi(argv[1]) : 1};
    exercise_context *context;
    NEED(exercise_create(&options, &context) == MAVCG_OK);
    check(context, ROWS, COLUMNS);
    for (int64_t rows = 1; rows <= ROWS; rows++)
        for (int64_t columns = 2; columns <= COLUMNS; columns++) {
            NEED(set(context, rows, columns, 3, 2 * columns + 1) == MAVCG_OK);
            check(context, rows, columns);
        }
    NEED(set(context, 3, 5, 3, 11) == MAVCG_OK);
    static const int64_t wrong[][4] = {
        {0, 5, 3, 11},
        {7, 5, 3, 11},
        {3, 1, 3, 3},
        {3, 9, 3, 19},
        {3, 5, 2, 11},
        {3, 5, 3, 10},
        {3, 5, 3, 12},
        {3, 5, 3, 13},
        {-3, 5, 3, 11},
        {3, 5, -1, 11},
        {INT64_MIN, 5, 3, 11},
        {INT64_MAX, 5, 3, 11},
        {3, INT64_MAX, 3, 1},
        {3, INT64_MIN, 3, 1},
        {3, 5, 3, INT64_MAX},
        {3, 5, 3, INT64_MIN},
        {3, 5, 3, 0},
        {3, 5, INT64_MAX, 11},
        {1LL << 32 | 3, 5, 3, 11},
        {3, 1LL << 32 | 5, 3, 11},
        {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        NEED(set(context, wrong[i][0], wrong[i][1], wrong[i][2], wrong[i][3]) == MAVCG_ERROR_SIZE);
        check(context, 3, 5);
    }
    const int64_t x[] = {3, 5, 3}, *none[] = {x, NULL};
    NEED(exercise_set_shape(context, none) == MAVCG_ERROR_NULL &&
         exercise_set_shape(context, NULL) == MAVCG_ERROR_NULL);
    check(context, 3, 5);
    exercise_destroy(context);
    puts("ok");
    return 0;
}
