/* Checks a run's arguments, and runs the steps in order. */
#include "engine_run.h"

#include "engine.h"
#include "engine_counted.h"
#include "engine_counts.h"
#include "engine_machine.h"
#include "engine_paging.h"
#include "engine_pool.h"
#include "engine_process.h"
#include "engine_state.h"
#include "engine_turns.h"
#include "engine_wait.h"
#include "internal.h"

static int check_tensors(const mavcg_tensor *tensors, uint32_t count, const void *const *arrays, const size_t *bytes) {
    if (count && !arrays) return MAVCG_ERROR_NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (!arrays[i] && tensors[i].bytes) return MAVCG_ERROR_NULL;
        if ((uintptr_t)arrays[i] % element_bytes[tensors[i].type]) return MAVCG_ERROR_ALIGNMENT;
        if (bytes && bytes[i] != tensors[i].bytes) return MAVCG_ERROR_SIZE;
    }
    return MAVCG_OK;
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    uintptr_t a_at = (uintptr_t)a, b_at = (uintptr_t)b;
    return a_bytes && b_bytes && (a_at < b_at ? b_at - a_at < a_bytes : a_at - b_at < b_bytes);
}

static int check_overlaps(const mavcg_tensor *in, const void *const *inputs, const mavcg_tensor *out,
                          void *const *outputs) {
    for (uint32_t o = 0; o < OUTPUTS; o++) {
        size_t bytes = out[o].bytes;
        for (uint32_t i = 0; i < INPUTS; i++)
            if (overlap(outputs[o], bytes, inputs[i], in[i].bytes)) return MAVCG_ERROR_OVERLAP;
        for (uint32_t i = 0; i < o; i++)
            if (overlap(outputs[o], bytes, outputs[i], out[i].bytes)) return MAVCG_ERROR_OVERLAP;
    }
    return MAVCG_OK;
}

MAVCG_PRIVATE int check_arrays(const mavcg_tensor *in, const void *const *inputs, const size_t *input_bytes,
                               const mavcg_tensor *out, void *const *outputs, const size_t *output_bytes) {
    int status = check_tensors(in, INPUTS, inputs, input_bytes);
    if (!status) status = check_tensors(out, OUTPUTS, (const void *const *)outputs, output_bytes);
    return status ? status : check_overlaps(in, inputs, out, outputs);
}

MAVCG_PRIVATE int check_arguments(const struct mavcg_context *context, const void *const *inputs,
                                  const size_t *input_bytes, void *const *outputs, const size_t *output_bytes) {
    if (!context) return MAVCG_ERROR_NULL;
    return check_arrays(context->inputs, inputs, input_bytes, context->outputs, outputs, output_bytes);
}

/* Run phases begin to end - 1, once. Returns a status. */
static int run_phases(struct mavcg_context *context, uint32_t begin, uint32_t end, double *step_ns) {
    for (uint32_t number = begin; number < end; number++) {
#if defined(MODEL_IN_APPLICATION)
        if (context->boundary) context->boundary(context->boundary_data);
#endif
        page_weights(context, number);
        uint64_t before = step_ns ? now_ns() : 0;
        const struct engine_step *step = &run_table[number];
        if (is_cancelled(context)) return MAVCG_CANCELLED;
        uint32_t rows = phase_rows(context, number);
        if (step->min_chunk_rows < rows && context->threads > 1) run_in_parallel(context, number);
        else if (rows) compute_rows(context, step, 0, rows, context->scratch);
        if (step_ns) step_ns[step->step] += (double)(now_ns() - before);
    }
    return MAVCG_OK;
}

/* Advance the operands that move by this number of iterations. No thread holds rows of the loop's phases meanwhile. */
static void move_operands(struct mavcg_context *context, const struct engine_loop *loop, int64_t iterations) {
    for (uint32_t i = loop->first_moving; i < loop->end_moving; i++) {
        void **operand = &context->operands[moving_table[i].operand];
        *operand = (char *)*operand + moving_stride(context, i) * iterations;
    }
}

/* Operands that move down are where the last of loop->trips iterations at the longest lengths is the first row: bring
 * them to where the last of `trips` iterations is it, or back if direction is -1. */
static void begin_at_last(struct mavcg_context *context, const struct engine_loop *loop, uint32_t trips,
                          int64_t direction) {
    for (uint32_t i = loop->first_moving; i < loop->end_moving; i++) {
        void **operand = &context->operands[moving_table[i].operand];
        int64_t longest = moving_table[i].stride, stride = moving_stride(context, i);
        if (longest < 0)
            *operand = (char *)*operand + direction * (longest * (loop->trips - 1) - stride * ((int64_t)trips - 1));
    }
}

static bool goes_on(const struct mavcg_context *context, const struct engine_loop *loop) {
    return loop->condition == NO_CONDITION || *(const uint8_t *)context->operands[loop->condition];
}

static int run_loop(struct mavcg_context *context, uint32_t number, double *step_ns);

/* Run phases begin to end - 1, of which loops first to after - 1 repeat some. Returns a status. */
static int run_body(struct mavcg_context *context, uint32_t begin, uint32_t end, uint32_t first, uint32_t after,
                    double *step_ns) {
    uint32_t number = begin;
    for (uint32_t i = first; i != after; i = loop_table[i].after) {
        int status = run_phases(context, number, loop_table[i].begin, step_ns);
        if (!status) status = run_loop(context, i, step_ns);
        if (status) return status;
        number = loop_table[i].end;
    }
    return run_phases(context, number, end, step_ns);
}

static int run_loop(struct mavcg_context *context, uint32_t number, double *step_ns) {
    const struct engine_loop *loop = &loop_table[number];
    int status = MAVCG_OK;
    uint32_t trips = loop_trips(context, number);
    begin_at_last(context, loop, trips, 1);
    uint32_t iteration = 0; /* the one at which the operands are */
    for (uint32_t ran = 0; !status && ran < trips && goes_on(context, loop); ran++) {
        if (ran != iteration) move_operands(context, loop, 1);
        iteration = ran;
        status = run_body(context, loop->begin, loop->end, number + 1, loop->after, step_ns);
    }
    move_operands(context, loop, -(int64_t)iteration);
    begin_at_last(context, loop, trips, -1);
    return status;
}

static int run_steps(struct mavcg_context *context, double *step_ns) {
    for (uint32_t i = 0; step_ns && i < STEPS; i++) step_ns[i] = 0;
    return run_body(context, context->begin, context->end, 0, LOOPS, step_ns); /* no loops with stages */
}

/* Set the addresses of the operands that differ between runs. frame: number of the pipeline's frame; 0 outside of a
 * pipeline. */
static void resolve_frame(struct mavcg_context *context, const void *const *inputs, void *const *outputs,
                          uint64_t frame) {
    for (uint32_t i = 0; i < EXTERNAL_OPERANDS; i++) {
        const struct engine_operand *operand = &operand_table[external_table[i]];
        const char *base = operand->base == IN_STATE   ? states_of(context, operand->index)
                           : operand->base == IN_INPUT ? inputs[operand->index]
                                                       : outputs[operand->index];
        context->operands[external_table[i]] = (void *)(base + operand->offset);
    }
    for (const struct engine_ring_operand *ring = ring_table; ring->copies; ring++)
        context->operands[ring->operand] = context->arena + operand_table[ring->operand].offset +
                                           frame % ring->copies * ring->stride;
}

MAVCG_PRIVATE int run_frame(struct mavcg_context *context, const void *const *inputs, void *const *outputs,
                            double *step_ns, uint64_t frame) {
    int status = context->threads > 1 ? start_workers(context, this_process(context)) : MAVCG_OK;
    if (!status) status = begin_states(context);
    if (status) return status;
    begin_paging(context);
    resolve_frame(context, inputs, outputs, frame);
    context->float_mode = float_mode();
    __atomic_store_n(&context->fault, 0, __ATOMIC_RELAXED);
    status = run_steps(context, step_ns);
    end_paging(context);
    if (!status && __atomic_load_n(&context->fault, __ATOMIC_RELAXED)) status = MAVCG_ERROR_INDEX;
    if (!status) take_counted(context, outputs);
    end_states(context, status);
    return status;
}

MAVCG_PRIVATE int run_model(struct mavcg_context *context, const void *const *inputs, void *const *outputs,
                            double *step_ns) {
    if (!acquire_context(context, this_process(context))) return MAVCG_BUSY;
    int status = MAVCG_BUSY;
    if (take_turn(context->shared)) {
        status = run_frame(context, inputs, outputs, step_ns, 0);
        end_turn(context->shared);
    }
    release_context(context);
    return status;
}
