/* A network's pipeline: stages that work on different frames at the same time, each on threads of its own.
 *
 * Frames go through the stages in order. Between two stages lie buffers with as many copies as frames can be between
 * them, so that stage s begins frame f when stage s - 1 has completed it and each later stage b has completed frame
 * f - (b - s + 1): two copies for neighbours. That is the back-pressure of a slow stage on those before it.
 *
 * Inputs and outputs stay the caller's memory from push to pop. */
#ifndef MAVCG_PIPELINE_H
#define MAVCG_PIPELINE_H

#include <stddef.h>
#include <stdint.h>

#include "application_api.h"
#include "application_memory.h"
#include "internal.h"

struct pipeline;

/* The network that a pipeline is of. */
struct pipeline_network {
    const struct application_network *functions;
    const mavcg_model_table *model;
};

enum { STAGE_CPUS = 1024 }; /* that a stage is restricted to at most; and its threads, MAX_THREADS of engine.h */

/* The CPUs and threads of a stage. */
struct stage_choice {
    uint16_t cpus[STAGE_CPUS];
    uint32_t cpu_count; /* 0: any that the process may use */
    uint32_t threads;
};

/* Choose for all stages, by the places given for this network (of any network, `count` of them), else by what was
 * predicted, else an equal share of the CPUs that the calling thread may use. choices: one for each stage. Returns a
 * status. */
MAVCG_PRIVATE int choose_stages(const struct application_network *functions, uint32_t network,
                                const mavcg_stage_place *places, uint32_t count, struct stage_choice *choices);

/* Create a pipeline in this memory; choices: for each stage, copied. Its threads start with the first frame. Returns a
 * status; *created is NULL on failure. */
MAVCG_PRIVATE int create_pipeline(const struct pipeline_network *network, const struct shared_memory *memory,
                                  const struct stage_choice *choices, struct pipeline **created);

/* Cancel its frames, stop its threads and free it. NULL is fine. */
MAVCG_PRIVATE void destroy_pipeline(struct pipeline *pipeline);

/* The functions of mavcg_app_table, which describes them. */
MAVCG_PRIVATE int push_frame(struct pipeline *pipeline, const void *const *inputs, void *const *outputs, void *frame,
                             int32_t timeout_ms);
MAVCG_PRIVATE int pop_frame(struct pipeline *pipeline, void **frame, int32_t timeout_ms);
MAVCG_PRIVATE void cancel_frames(struct pipeline *pipeline);
MAVCG_PRIVATE uint32_t stage_threads(const struct pipeline *pipeline, uint32_t stage);

#endif
