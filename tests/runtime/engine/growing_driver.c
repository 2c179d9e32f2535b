/* Runs a program whose state grows by the rows of each run, in any order of runs, saves, restores and resets. The output
 * has as many elements as the state had rows, all of them the first number of the state. Argument: threads. Prints "ok".
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exercise.h"
#include "need.h"

enum { LEAST = 1, MOST = 4, ROWS = 3, LONGEST = MOST + ROWS, ROUNDS = 500 }; /* as in test_growing_states.py */

struct kept {
    int64_t length;
    int32_t value;
};

/* The next number of a linear congruential generator (Knuth, MMIX), below a limit. */
static uint32_t next(uint64_t *seed, uint32_t limit) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % limit;
}

static void run(exercise_context *context, struct kept *kept, int64_t rows, int32_t value) {
    const int64_t number[] = {1}, *dims[] = {&rows, number};
    int wanted = kept->length <= MOST ? MAVCG_OK : MAVCG_ERROR_SIZE;
    NEED(exercise_set_shape(context, dims) == wanted);
    int32_t *given = calloc((size_t)rows, sizeof *given), *value_of = malloc(sizeof *value_of);
    int32_t *before = malloc((size_t)kept->length * sizeof *before); /* as large as written: a sanitizer sees more */
    const void *inputs[] = {given, value_of};
    void *outputs[] = {before};
    NEED(given && value_of && before);
    *value_of = value;
    if (wanted == MAVCG_OK) {
        NEED(exercise_context_outputs(context)[0].dims[0] == kept->length);
        NEED(exercise_context_outputs(context)[0].bytes == (uint64_t)kept->length * sizeof *before);
        NEED(exercise_run(context, inputs, outputs) == MAVCG_OK);
        for (int64_t i = 0; i < kept->length; i++) NEED(before[i] == kept->value);
        *kept = (struct kept){kept->length + rows, value};
    } else NEED(exercise_run(context, inputs, outputs) == MAVCG_ERROR_SIZE);
    free(given), free(value_of), free(before);
}

static void restore_hostile(exercise_context *context, const char *saved, size_t size) {
    const int64_t lengths[] = {LEAST - 1, LONGEST + 1, -1, INT64_MIN, INT64_MAX, INT64_C(1) << 32};
    char *changed = malloc(size);
    NEED(changed);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        memcpy(changed, saved, size);
        memcpy(changed + size - sizeof *lengths, &lengths[i], sizeof *lengths);
        NEED(exercise_state_restore(context, changed, size) == MAVCG_ERROR_STATE);
    }
    free(changed);
}

int main(int argc, char **argv) {
    mavcg_options options = {.threads = argc > 1 ? atoi(argv[1]) : 1};
    exercise_context *context;
    NEED(exercise_create(&options, &context) == MAVCG_OK);
    const struct kept first = {LEAST, 0};
    struct kept kept = first, kept_then = first;
    size_t size = exercise_state_size(context);
    NEED(size == 16 + 2 * LONGEST * sizeof(int32_t) + sizeof(int64_t)); /* a header before, the length behind */
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
            kept = first;
            break;
        default: run(context, &kept, 1 + next(&seed, ROWS), -i); /* nap sleeps for none */
        }
        NEED(exercise_state_save(context, now, size) == MAVCG_OK);
        restore_hostile(context, now, size);
        for (int64_t half = 0; half < 2; half++)
            for (int64_t row = 0; row < kept.length; row++) {
                int32_t value;
                memcpy(&value, now + 16 + (size_t)(half * LONGEST + row) * sizeof value, sizeof value);
                NEED(value == kept.value);
            }
        int64_t length;
        memcpy(&length, now + size - sizeof length, sizeof length);
        NEED(length == kept.length);
    }
    exercise_destroy(context);
    free(now), free(then);
    puts("ok");
    return 0;
}
