/* Memory that contexts of several networks share: what the engine of a network and its application tell each other. */
#ifndef MAVCG_APPLICATION_MEMORY_H
#define MAVCG_APPLICATION_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine_api.h"

/* A network's part of an application's memory. Its runs begin only while no network of `conflicts_with` is in a run. */
struct shared_memory {
    char *arena, *scratch;   /* scratch: for at most max_threads threads */
    uint64_t *taken;         /* process << 32 | the networks that are in a run, a bit each */
    uint32_t own;            /* this network's bit */
    uint32_t conflicts_with; /* bits, its own included */
    uint32_t max_threads;
    bool cleared_in_child; /* the kernel clears *taken in a forked child */
};

/* What the engine of a network gives to its application. */
struct application_network {
    /* Get the number of threads that a context would have. Returns a status. */
    int (*count_threads)(const mavcg_options *options, uint32_t *threads);
    /* Create a context in an application's memory, which outlives it; *context is NULL on failure. Returns a status. */
    int (*create)(const mavcg_options *options, const struct shared_memory *memory, void **context);
    void (*destroy)(void *context);
};

#endif
