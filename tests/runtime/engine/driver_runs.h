/* Runs of the exercise: its inputs, its outputs and what they must be, and jobs for threads. */
#ifndef DRIVER_RUNS_H
#define DRIVER_RUNS_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "exercise.h"
#include "need.h"

enum { LENGTH = 1000, ROWS = 96, LAYERS = 12, NAPS = 3 };

static float weights[LENGTH];

struct arrays {
    float x[LENGTH], y[LENGTH], expected[LENGTH];
    int32_t ms[1], who[ROWS], naps[NAPS];
    uint32_t modes[ROWS];
    uint8_t intact[ROWS];
    const void *inputs[2];
    void *outputs[5];
};

static void fill(struct arrays *a, unsigned seed, int ms) {
    float next[LENGTH];
    memset(a, 0xA5, sizeof *a);
    for (int i = 0; i < LENGTH; i++) a->x[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-20f;
    memcpy(a->expected, a->x, sizeof a->x);
    for (int layer = 0; layer < LAYERS; layer++) {
        for (int i = 0; i < LENGTH; i++) next[i] = a->expected[LENGTH - 1 - i] * 0.5f + weights[i];
        memcpy(a->expected, next, sizeof next);
    }
    a->ms[0] = ms;
    a->inputs[0] = a->x, a->inputs[1] = a->ms;
    a->outputs[0] = a->y, a->outputs[1] = a->who, a->outputs[2] = a->modes, a->outputs[3] = a->intact;
    a->outputs[4] = a->naps;
}

static void check(const struct arrays *a) {
    NEED(!memcmp(a->y, a->expected, sizeof a->y));
    for (int i = 0; i < ROWS; i++) NEED(a->intact[i] == 1 && a->modes[i] == a->modes[0] && a->who[i] >= 1);
    for (int i = 0; i < NAPS; i++) NEED(a->naps[i] == a->ms[0]);
}

static exercise_context *made(int threads, uint32_t flags) {
    exercise_options options = {threads, flags, {0, 0}};
    exercise_context *context = NULL;
    int status = exercise_create(&options, &context);
    if (status) fprintf(stderr, "create: %s\n", exercise_error_text(status));
    NEED(!status && context);
    return context;
}

static void run_many(exercise_context *context, int count, unsigned seed) {
    struct arrays a;
    fill(&a, seed, 0);
    for (int i = 0; i < count; i++) {
        memset(a.y, 0, sizeof a.y);
        NEED(exercise_run(context, a.inputs, a.outputs) == MAVCG_OK);
        check(&a);
    }
}

struct job {
    exercise_context *context;
    int count, done, busy;
    unsigned seed;
};

static void *run_job(void *argument) {
    struct job *job = argument;
    run_many(job->context, job->count, job->seed);
    return NULL;
}

static void sleep_ms(int ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

static void *nap(void *argument) {
    struct job *job = argument;
    struct arrays a;
    fill(&a, 1, 150);
    job->done = exercise_run(job->context, a.inputs, a.outputs);
    return NULL;
}

#endif
