/* A network's pipeline: stages that work on different frames at the same time, each with its own threads.
 *
 * Frames pass through the stages in order. Each buffer between two stages has as many copies as there can be frames
 * between them: stage s begins frame f when stage s - 1 has completed it and each later stage b has completed frame f -
 * (b - s + 1). Neighbouring stages thus need two copies. This rule is the back-pressure of a slow stage on earlier
 * stages.
 *
 * From push to pop, the caller must keep inputs and outputs valid. */
#ifndef MAVCG_PIPELINE_H
#define MAVCG_PIPELINE_H

#include <stddef.h>
#include <stdint.h>

#include "application_api.h"
#include "application_memory.h"
#include "internal.h"

struct pipeline;

/* The network that a pipeline runs. context: the application's own, whose lengths a frame has that is pushed. */
struct pipeline_network {
    const struct application_network *functions;
    const mavcg_model_table *model;
    void *context;
};

enum { STAGE_CPUS = 1024 }; /* most CPUs of a stage, and most threads: MAX_THREADS of engine.h */

/* The CPUs and the number of threads of a stage. */
struct stage_choice {
    uint16_t cpus[STAGE_CPUS];
    uint32_t cpu_count; /* 0: any CPU that the process may use */
    uint32_t threads;
};

/* Choose CPUs and threads for all stages: by the entries of `places` for this network if there are any (`count`
 * entries, of any network), else by prediction, else an equal share of the CPUs that the calling thread may use.
 * choices: receives one entry per stage. Returns a status. */
MAVCG_PRIVATE int choose_stages(const struct application_network *functions, uint32_t network,
                                const mavcg_stage_place *places, uint32_t count, struct stage_choice *choices);

/* Create a pipeline in this memory. choices: one entry per stage; copied. Its threads start with the first frame.
 * Returns a status; *created is NULL on failure. */
MAVCG_PRIVATE int create_pipeline(const struct pipeline_network *network, const struct shared_memory *memory,
                                  const struct stage_choice *choices, struct pipeline **created);

/* Cancel the pipeline's frames, stop its threads and free it. pipeline may be NULL. */
MAVCG_PRIVATE void destroy_pipeline(struct pipeline *pipeline);

/* These functions implement those of mavcg_app_table; see there. */
MAVCG_PRIVATE int push_frame(struct pipeline *pipeline, const void *const *inputs, void *const *outputs, void *frame,
                             int32_t timeout_ms);
MAVCG_PRIVATE int pop_frame(struct pipeline *pipeline, void **frame, int32_t timeout_ms);
MAVCG_PRIVATE void cancel_frames(struct pipeline *pipeline);
MAVCG_PRIVATE uint32_t stage_threads(const struct pipeline *pipeline, uint32_t stage);

#endif
