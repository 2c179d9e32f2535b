/* Calls of a model library's functions in any order, with options, sizes and pointers of any kind, from one thread and a
 * second one. Every status must be one of those that are documented, and a run that is done must have the right bits.
 *
 * The input is a list of calls: a byte says which, those after it how. The model is that of the engine's tests. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exercise.h"

enum { LENGTH = 1000, ROWS = 96, LAYERS = 12, NAPS = 3, CONTEXTS = 3, MOST_CALLS = 12, MOST_RUNS = 2 };

struct bytes {
    const uint8_t *at, *end;
};

struct arrays {
    float x[LENGTH], y[LENGTH];
    int32_t ms[2], who[ROWS], naps[NAPS];
    uint32_t modes[ROWS];
    uint8_t intact[ROWS];
};

static struct arrays arrays;
static float expected[LENGTH];
static exercise_context *contexts[CONTEXTS];

static uint32_t next(struct bytes *in, unsigned count) {
    uint32_t value = 0;
    for (; count; count--) value = value << 8 | (in->at < in->end ? *in->at++ : 0);
    return value;
}

static void need(int condition) {
    if (!condition) abort();
}

static void prepare(void) {
    float now[LENGTH];
    for (int i = 0; i < LENGTH; i++) arrays.x[i] = expected[i] = (float)(i * 37 % 101) * 0.125f;
    for (int layer = 0; layer < LAYERS; layer++) {
        for (int i = 0; i < LENGTH; i++) now[i] = expected[LENGTH - 1 - i] * 0.5f + (float)(i % 17) * 0.25f;
        memcpy(expected, now, sizeof expected);
    }
}

/* Moves a pointer, or takes it away, as two bytes say; mostly it stays. */
static char *changed(struct bytes *in, void *right, void *other) {
    switch (next(in, 1)) {
    case 1: return NULL;
    case 2: return (char *)right + 1;
    case 3: return other;
    case 4: return (char *)other + next(in, 2) % sizeof(float[LENGTH]);
    case 5: return (char *)right + 4;
    default: return right;
    }
}

static void *cancelling(void *context) {
    for (int i = 0; i < 3; i++) exercise_cancel(context);
    return NULL;
}

static void run(struct bytes *in, exercise_context *context) {
    size_t in_bytes[2] = {sizeof arrays.x, sizeof(int32_t)};
    size_t out_bytes[5] = {sizeof arrays.y, sizeof arrays.who, sizeof arrays.modes, sizeof arrays.intact,
                           sizeof arrays.naps};
    void *right_in[2] = {arrays.x, arrays.ms},
         *right[5] = {arrays.y, arrays.who, arrays.modes, arrays.intact, arrays.naps};
    const void *inputs[2];
    void *outputs[5];
    double step_ns[64];
    pthread_t thread;
    int same = 1, how = (int)next(in, 1), cancels = (how & 0x30) == 0x30;
    uint32_t which = next(in, 1);
    memset(arrays.y, 0xA5, sizeof arrays.y);
    for (int i = 0; i < 2; i++) {
        inputs[i] = which == 255 ? changed(in, right_in[i], arrays.y) : right_in[i];
        same &= inputs[i] == right_in[i];
    }
    for (int i = 0; i < 5; i++) {
        outputs[i] = which >= 254 ? changed(in, right[i], arrays.x) : right[i];
        same &= outputs[i] == right[i];
    }
    /* Pointers that are moved may leave their arrays: those that the engine would take are not tried. */
    int inside = 1;
    for (int i = 0; i < 2; i++) inside &= inputs[i] != (char *)right_in[i] + 4 || i == 1;
    for (int i = 0; i < 5; i++) inside &= outputs[i] != (char *)right[i] + 4;
    for (int i = 0; i < 5; i++)
        if (outputs[i] && outputs[i] != right[i] && (char *)outputs[i] + out_bytes[i] > (char *)(&arrays + 1))
            inside = 0;
    if (!inside) return;
    if (cancels) cancels = !pthread_create(&thread, NULL, cancelling, context);
    int status;
    switch (how & 3) {
    case 0: status = exercise_run(context, inputs, outputs); break;
    case 1: status = exercise_profile(context, inputs, outputs, step_ns); break;
    case 2:
        if (how & 4) in_bytes[0] = next(in, 4), same &= in_bytes[0] == sizeof arrays.x;
        if (how & 8) out_bytes[3] = next(in, 4), same &= out_bytes[3] == sizeof arrays.intact;
        status = exercise_run_sized(context, inputs, in_bytes, outputs, out_bytes);
        break;
    default:
        status = exercise_run(context, how & 4 ? NULL : inputs, how & 8 ? NULL : outputs), same &= !(how & 12);
        break;
    }
    if (cancels) pthread_join(thread, NULL);
    need(strcmp(exercise_error_text(status), "not a status of this library") != 0);
    if (same && context) need(status == MAVCG_OK || (cancels && status == MAVCG_CANCELLED));
    if (!context) need(status == MAVCG_ERROR_NULL);
    if (!same && status == MAVCG_OK) { /* arguments that are odd, and right all the same: put in order again */
        prepare();
        arrays.ms[0] = 0;
        return;
    }
    if (status != MAVCG_OK) return;
    need(!memcmp(arrays.y, expected, sizeof expected));
    for (int i = 0; i < ROWS; i++)
        need(arrays.intact[i] == 1 && arrays.who[i] >= 1 && arrays.modes[i] == arrays.modes[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bytes in = {data, data + size};
    int runs = 0;
    prepare();
    for (int calls = 0; calls < MOST_CALLS && in.at < in.end; calls++) {
        uint32_t what = next(&in, 1), place = what >> 3 & 3;
        exercise_context **context = &contexts[place % CONTEXTS];
        switch (what & 7) {
        case 0:
        case 1: {
            exercise_options options = {(int32_t)next(&in, 1) % 5, 0, {0, 0}};
            if (what & 0x80) {
                options.threads = (int32_t)next(&in, 4);
                options.flags = next(&in, 1);
                options.reserved[what >> 6 & 1] = next(&in, 1);
            }
            if (options.threads > 4 && options.threads <= 1024)
                options.threads = 4; /* threads cost time, not coverage */
            exercise_destroy(*context);
            exercise_context *made = (exercise_context *)&in;
            int status = exercise_create(what & 0x20 ? NULL : &options, &made);
            need(status == MAVCG_OK || status == MAVCG_ERROR_OPTION);
            need((status == MAVCG_OK) == (made != NULL));
            *context = made;
            break;
        }
        case 2: exercise_destroy(*context), *context = NULL; break;
        case 3: need(exercise_cancel(*context) == (*context ? MAVCG_OK : MAVCG_ERROR_NULL)); break;
        case 4:
            need(*context ? exercise_threads(*context) >= 1 : exercise_threads(*context) == MAVCG_ERROR_NULL);
            break;
        case 5: need(exercise_error_text((int)next(&in, 4)) != NULL); break;
        default:
            if (runs++ < MOST_RUNS) run(&in, *context);
        }
    }
    for (int i = 0; i < CONTEXTS; i++) exercise_destroy(contexts[i]), contexts[i] = NULL;
    return 0;
}
