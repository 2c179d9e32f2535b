/* Runs stages of a network's pipeline. */
#include "engine_stage.h"

#include <string.h>

#include "engine.h"
#include "engine_context.h"
#include "engine_pool.h"
#include "engine_process.h"
#include "engine_run.h"
#include "engine_shape.h"
#include "engine_system.h"
#include "internal.h"

#if defined(MODEL_IN_APPLICATION) /* this engine belongs to one network of an application */

MAVCG_PRIVATE int check_frame(void *of, const void *const *inputs, void *const *outputs, uint32_t *counts) {
    struct mavcg_context *context = of;
#if DIMENSIONS /* the model has bounded dimensions, which another thread may set */
    if (!acquire_context(context, this_process(context))) return MAVCG_BUSY;
    if (counts) memcpy(counts, context->counts, COUNTS * sizeof *counts);
#else
    (void)counts;
#endif
    int status = check_arguments(context, inputs, NULL, outputs, NULL);
#if DIMENSIONS
    release_context(context);
#endif
    return status;
}

MAVCG_PRIVATE uint32_t stage_cpus(uint32_t stage, uint16_t *cpus, uint32_t count, uint32_t *threads) {
    const struct engine_plan *plan = &stage_table[stage].plan;
    current_core(); /* makes the selector detect the core types */
    if (!plan->threads || !plan_fits(plan, cpus, count)) return 0;
    *threads = plan->threads;
    return cpus_of_plan(plan, cpus, count);
}

MAVCG_PRIVATE int create_stage(const struct shared_memory *memory, uint32_t stage, uint32_t first_thread,
                               uint32_t *threads, void **created) {
    const mavcg_options options = {.threads = (int32_t)*threads};
    int status = create_context(&options, memory, (struct mavcg_context **)created);
    if (status) return status;
    struct mavcg_context *context = *created;
    context->begin = stage_table[stage].begin;
    context->end = stage_table[stage].end;
    context->scratch += first_thread * (size_t)SCRATCH_STRIDE;
    *threads = context->threads;
    return MAVCG_OK;
}

MAVCG_PRIVATE void begin_frame(void *context) { acquire_context(context, this_process(context)); }

MAVCG_PRIVATE int run_stage(void *context, const struct pipeline_frame *frame) {
#if DIMENSIONS
    set_counts(context, frame->counts);
#endif
    int status = run_frame(context, frame->inputs, frame->outputs, NULL, frame->number);
    release_context(context);
    return status;
}

MAVCG_PRIVATE void cancel_stage(void *context) { cancel_run(context); }

#endif
