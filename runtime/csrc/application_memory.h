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

/* A frame that goes through a pipeline. number: counts frames. */
struct pipeline_frame {
    uint64_t number;
    const void *const *inputs;
    void *const *outputs;
};

/* What the engine of a network gives to its application. */
struct application_network {
    /* Get the number of threads that a context would have. Returns a status. */
    int (*count_threads)(const mavcg_options *options, uint32_t *threads);
    /* Create a context in an application's memory, which outlives it; *context is NULL on failure. Returns a status. */
    int (*create)(const mavcg_options *options, const struct shared_memory *memory, void **context);
    void (*destroy)(void *context);
    /* Check the arrays of a frame. Returns a status. */
    int (*check)(const void *const *inputs, void *const *outputs);
    uint32_t stages; /* of its pipeline; 0: it has none */
    /* Move the CPUs that are predicted for a stage to the front of `cpus`. Returns their number, with the stage's
     * threads; 0 where nothing was predicted, or the CPUs are not those of the prediction. */
    uint32_t (*stage_cpus)(uint32_t stage, uint16_t *cpus, uint32_t count, uint32_t *threads);
    /* Create the context of a stage with so many threads, whose scratch follows that of the first_thread before it.
     * Its own number of threads is stored: at most as many as have work. Returns a status. */
    int (*create_stage)(const struct shared_memory *memory, uint32_t stage, uint32_t first_thread, uint32_t *threads,
                        void **context);
    /* Make the next run_stage the context's run: a cancel from now on ends it. */
    void (*begin_frame)(void *context);
    /* Run a stage for a frame, on the calling thread, with its floating-point mode, and those of the context. Returns a
     * status. */
    int (*run_stage)(void *context, const struct pipeline_frame *frame);
    void (*cancel)(void *context);
};

#endif
