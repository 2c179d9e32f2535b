/* Runs a program whose states have two bounded dimensions, in any order of shapes, saves, restores and resets, and
 * compares what is saved with states that are kept by index. Argument: threads. Prints "ok". */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exercise.h"
#include "need.h"

enum { LAYERS = 2, ROWS = 3, MIDDLE = 2, COLUMNS = 4, ROUNDS = 500 }; /* as in test_state_rows.py */

struct kept { /* the states in the order of the library */
    int32_t in_place[LAYERS][ROWS][MIDDLE][COLUMNS], rows[ROWS][MIDDLE], swapped[LAYERS][ROWS][MIDDLE][COLUMNS];
};

/* The next number of a linear congruential generator (Knuth, MMIX), below a limit. */
static uint32_t next(uint64_t *seed, uint32_t limit) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % limit;
}

static void run(exercise_context *context, struct kept *kept, int64_t rows, int64_t columns, int32_t value) {
    const int64_t x[] = {rows, columns}, number[] = {1}, *dims[] = {x, number};
    NEED(exercise_set_shape(context, dims) == MAVCG_OK);
    size_t cells = (size_t)(rows * columns);
    int32_t *given = calloc(cells, sizeof *given), *y = malloc(sizeof *y); /* as large as read: a sanitizer sees more */
    const void *inputs[] = {given, &value};
    void *outputs[] = {y};
    NEED(given && y && exercise_run(context, inputs, outputs) == MAVCG_OK && *y == value);
    free(given), free(y);
    for (int layer = 0; layer < LAYERS; layer++)
        for (int64_t i = 0; i < rows; i++)
            for (int j = 0; j < MIDDLE; j++) {
                kept->rows[i][j] = value;
                for (int64_t k = 0; k < columns; k++)
                    kept->in_place[layer][i][j][k] = kept->swapped[layer][i][j][k] = value;
            }
}

int main(int argc, char **argv) {
    mavcg_options options = {.threads = argc > 1 ? atoi(argv[1]) : 1};
    exercise_context *context;
    NEED(exercise_create(&options, &context) == MAVCG_OK);
    struct kept kept = {0}, kept_then = {0};
    size_t size = exercise_state_size(context), header = 16;
    NEED(size == header + sizeof kept);
    char *now = malloc(size), *then = malloc(size);
    NEED(now && then && exercise_state_save(context, then, size) == MAVCG_OK);
    uint64_t seed = 1;
    for (int32_t i = 1; i <= ROUNDS; i++) {
        switch (next(&seed, 8)) {
        case 0:
            NEED(exercise_state_save(context, then, size) == MAVCG_OK);
            kept_then = kept;
            break;
        case 1:
            NEED(exercise_state_restore(context, then, size) == MAVCG_OK);
            kept = kept_then;
            break;
        case 2:
            NEED(exercise_reset(context) == MAVCG_OK);
            memset(&kept, 0, sizeof kept);
            break;
        default: run(context, &kept, 1 + next(&seed, ROWS), 1 + next(&seed, COLUMNS), -i); /* nap sleeps for none */
        }
        NEED(exercise_state_save(context, now, size) == MAVCG_OK);
        NEED(!memcmp(now + header, &kept, sizeof kept));
    }
    exercise_destroy(context);
    free(now), free(then);
    puts("ok");
    return 0;
}
