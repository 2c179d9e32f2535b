/* Memory that the contexts of several networks share: the interface between a network's engine and its application. */
#ifndef MAVCG_APPLICATION_MEMORY_H
#define MAVCG_APPLICATION_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine_api.h"

/* A network's part of an application's memory. A run of the network begins only while no network of `conflicts_with` is
 * running. */
struct shared_memory {
    char *arena, *scratch;   /* scratch: for at most max_threads threads */
    uint64_t *taken;         /* process << 32 | bit mask of the networks that are running */
    uint32_t own;            /* this network's bit */
    uint32_t conflicts_with; /* bit mask of networks, this one included */
    uint32_t max_threads;
    bool cleared_in_child; /* the kernel clears *taken in a forked child process */
};

/* A frame in a pipeline. number: counts the frames that were pushed before it. counts: what follows from its lengths
 * (engine_shape.h). */
struct pipeline_frame {
    uint64_t number;
    const void *const *inputs;
    void *const *outputs;
    const uint32_t *counts;
};

/* The functions that a network's engine gives to its application. */
struct application_network {
    /* Compute the number of threads that a context would have. Returns a status. */
    int (*count_threads)(const mavcg_options *options, uint32_t *threads);
    /* Create a context in an application's memory; the memory must outlive the context. *context is NULL on failure.
     * Returns a status. */
    int (*create)(const mavcg_options *options, const struct shared_memory *memory, void **context);
    void (*destroy)(void *context);
    /* Check the input and output pointers of a frame of the lengths that a context has. counts: receives what follows
     * from these; may be NULL. Returns a status. */
    int (*check)(void *context, const void *const *inputs, void *const *outputs, uint32_t *counts);
    uint32_t counts; /* numbers that follow from a frame's lengths; 0: shapes are fixed */
    uint32_t stages; /* stages of its pipeline; 0: no pipeline */
    /* Move the CPUs that the build predicted for a stage to the front of `cpus`. Stores the stage's number of threads
     * and returns the number of these CPUs; returns 0 if there is no prediction or it does not match these CPUs. */
    uint32_t (*stage_cpus)(uint32_t stage, uint16_t *cpus, uint32_t count, uint32_t *threads);
    /* Create the context of a stage. Its scratch begins behind that of the first `first_thread` threads. *threads: the
     * requested number of threads; receives the number used, at most as many as have work. Returns a status. */
    int (*create_stage)(const struct shared_memory *memory, uint32_t stage, uint32_t first_thread, uint32_t *threads,
                        void **context);
    /* Make the next run_stage the context's active run: a cancel from now on ends it. */
    void (*begin_frame)(void *context);
    /* Run a stage for a frame on the calling thread and those of the context, all in the calling thread's
     * floating-point mode. Returns a status. */
    int (*run_stage)(void *context, const struct pipeline_frame *frame);
    void (*cancel)(void *context);
    /* Let runs of a context call this before each of their steps, in the thread of the run; NULL: no call. No run of
     * the context may be active. */
    void (*set_boundary)(void *context, void (*boundary)(void *data), void *data);
};

#endif
