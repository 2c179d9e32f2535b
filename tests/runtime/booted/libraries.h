/* A program library and a model library on a booted kernel: opened, run, and their results as a number. */
#ifndef LIBRARIES_H
#define LIBRARIES_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine_api.h"

enum { LENGTH = 1000, THREADS = 3, MOST_TENSORS = 8 };

#define NEED(condition)                                                    \
    do                                                                     \
        if (!(condition)) {                                                \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            fflush(stdout);                                                \
            _exit(3);                                                      \
        }                                                                  \
    while (0)

static float (*total)(const float *x, int n);
static const mavcg_model_table *model;

static void *opened(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) printf("%s\n", dlerror());
    NEED(library);
    return library;
}

static int stay_on(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set);
}

/* On the last CPU, whose files say what its registers say: the selector takes files that contradict these for another
 * machine's. */
static void open_both(void) {
    const mavcg_model_table *(*api)(void);
    cpu_set_t before;
    NEED(!sched_getaffinity(0, sizeof before, &before));
    stay_on((int)sysconf(_SC_NPROCESSORS_ONLN) - 1);
    *(void **)&total = dlsym(opened("/libtotal.so"), "total");
    *(void **)&api = dlsym(opened("/libmodel.so"), "mavcg_model_api");
    NEED(total && api);
    model = api();
    sched_setaffinity(0, sizeof before, &before);
}

static uint64_t mixed(uint64_t hash, const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001B3u; /* FNV-1a */
    return hash;
}

static uint64_t bits_of_total(void) {
    float x[LENGTH], sum;
    uint32_t seed = 1;
    for (int i = 0; i < LENGTH; i++) x[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-20f;
    sum = total(x, LENGTH);
    return mixed(0xCBF29CE484222325u, &sum, sizeof sum);
}

struct run {
    void *context, *places[2 * MOST_TENSORS];
};

static struct run made(int threads) {
    struct run run = {0};
    mavcg_options options = {threads, 0, {0, 0}};
    uint32_t seed = 7;
    NEED(model->input_count <= MOST_TENSORS && model->output_count <= MOST_TENSORS);
    NEED(model->create(&options, &run.context) == MAVCG_OK);
    for (uint32_t i = 0; i < model->input_count + model->output_count; i++) {
        int in = i < model->input_count;
        size_t bytes = in ? model->inputs[i].bytes : model->outputs[i - model->input_count].bytes;
        float *values = run.places[i] = calloc(1, bytes + 1);
        NEED(values);
        for (size_t at = 0; in && at < bytes / sizeof *values; at++)
            values[at] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-24f;
    }
    return run;
}

static uint64_t bits_of_model(struct run *run) {
    uint64_t hash = 0xCBF29CE484222325u;
    int status = model->run(run->context, (const void *const *)run->places, run->places + model->input_count);
    if (status) printf("run: %s\n", model->error_text(status));
    NEED(!status);
    for (uint32_t o = 0; o < model->output_count; o++)
        hash = mixed(hash, run->places[model->input_count + o], model->outputs[o].bytes);
    return hash;
}

#endif
