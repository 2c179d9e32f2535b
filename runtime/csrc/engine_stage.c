/* Runs stages of a network's pipeline. */
#include "engine_stage.h"

#include "engine.h"
#include "engine_context.h"
#include "engine_pool.h"
#include "engine_process.h"
#include "engine_run.h"
#include "engine_system.h"
#include "internal.h"

#if defined(MODEL_IN_APPLICATION) /* this engine belongs to one network of an application */

MAVCG_PRIVATE int check_frame(const void *const *inputs, void *const *outputs) {
    return check_arrays(inputs_table, inputs, NULL, outputs_table, outputs, NULL);
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
    int status = run_frame(context, frame->inputs, frame->outputs, NULL, frame->number);
    release_context(context);
    return status;
}

MAVCG_PRIVATE void cancel_stage(void *context) { cancel_run(context); }

#endif
