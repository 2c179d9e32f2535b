/* Runs a program with a loop in a loop: rows that advance with both, a state that stays, a condition that the outer body
 * sets. Arguments: threads, runs. Prints "ok". */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "exercise.h"
#include "need.h"

enum { LENGTH = 1000, TRIPS = 6, INNER = 2 }; /* as in kernels.c and test_loops.py */

struct arrays {
    float x[LENGTH], rows[TRIPS][INNER][LENGTH], y[LENGTH], expected[TRIPS][INNER][LENGTH], last[LENGTH];
    int32_t ms[TRIPS + 1];
    const void *inputs[2];
    void *outputs[2];
};

static void chain(float *out, const float *in) {
    float next[LENGTH];
    for (int i = 0; i < LENGTH; i++) next[i] = in[LENGTH - 1 - i] * 0.5f + (float)(i % 17) * 0.25f;
    memcpy(out, next, sizeof next);
}

/* A run of `trips` iterations, each of which sleeps `ms` milliseconds; the condition ends it if they are below TRIPS. */
static void fill(struct arrays *a, unsigned seed, int trips, int ms) {
    float state[LENGTH];
    memset(a, 0xA5, sizeof *a);
    for (int i = 0; i < LENGTH; i++) a->x[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-20f;
    chain(state, a->x);
    for (int t = 0; t <= TRIPS; t++) a->ms[t] = t < trips ? ms : 0;
    for (int t = 0; t < trips * INNER; t++) {
        chain(state, state);
        chain(state, state);
        chain(a->expected[t / INNER][t % INNER], state);
    }
    chain(a->last, state);
    a->inputs[0] = a->x, a->inputs[1] = a->ms;
    a->outputs[0] = a->rows, a->outputs[1] = a->y;
}

static void check(const struct arrays *a) {
    NEED(!memcmp(a->rows, a->expected, sizeof a->rows)); /* rows of no iteration stay as they were */
    NEED(!memcmp(a->y, a->last, sizeof a->y));
}

static exercise_context *context;
static int status;

static void *run(void *arrays) {
    struct arrays *a = arrays;
    status = exercise_run(context, a->inputs, a->outputs);
    return NULL;
}

int main(int count, char **arguments) {
    exercise_options options = {.threads = atoi(arguments[1])};
    static struct arrays a;
    pthread_t thread;
    NEED(count == 3 && exercise_create(&options, &context) == MAVCG_OK);
    for (int i = 0; i < atoi(arguments[2]); i++) {
        fill(&a, (unsigned)i, i % (TRIPS + 1), 1);
        run(&a);
        NEED(status == MAVCG_OK);
        check(&a);
    }
    fill(&a, 1, TRIPS, 100); /* cancelled in an iteration: the next run begins at the first rows again */
    NEED(!pthread_create(&thread, NULL, run, &a));
    struct timespec time = {0, 250 * 1000000L};
    nanosleep(&time, NULL);
    NEED(exercise_cancel(context) == MAVCG_OK);
    pthread_join(thread, NULL);
    NEED(status == MAVCG_CANCELLED);
    fill(&a, 2, TRIPS, 1);
    double ns[7];
    NEED(exercise_profile(context, a.inputs, a.outputs, ns) == MAVCG_OK);
    check(&a);
    NEED(ns[2] >= TRIPS * 0.5e6); /* all iterations of a step are its time */
    exercise_destroy(context);
    puts("ok");
    return 0;
}
