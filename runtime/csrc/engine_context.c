/* Creates and destroys contexts. */
#include "engine_context.h"

#include <stdlib.h>
#include <string.h>

#include "application_memory.h"
#include "engine.h"
#include "engine_counted.h"
#include "engine_library.h"
#include "engine_machine.h"
#include "engine_memory.h"
#include "engine_options.h"
#include "engine_pool.h"
#include "engine_process.h"
#include "engine_shape.h"
#include "engine_state.h"
#include "engine_system.h"
#include "internal.h"

/* Set the addresses of the operands that are the same in every run. */
static void resolve_operands(struct mavcg_context *context) {
    for (uint32_t i = 0; i < OPERANDS; i++) {
        const struct engine_operand *operand = &operand_table[i];
        if (operand->base == IN_ARENA) context->operands[i] = context->arena + operand->offset;
        else if (operand->base == IN_CONSTANTS) context->operands[i] = (void *)(MAVCG_CONSTANTS + operand->offset);
        else if (operand->base == IN_STATE) context->operands[i] = states_of(context, operand->index) + operand->offset;
        else if (operand->base == IN_FAULT) context->operands[i] = &context->fault;
        else if (operand->base == IN_COUNT) context->operands[i] = &context->counts[operand->index];
        else if (operand->base == IN_COUNTED) context->operands[i] = &context->counted[operand->index];
    }
}

static void free_context(struct mavcg_context *context) {
    free(context->pool.threads);
    free(context->operands);
    free_shape(context);
    free_counted(context);
    if (!context->shared) {
        free_working(context->scratch, context->threads * (size_t)SCRATCH_STRIDE);
        free_working(context->arena, ARENA_BYTES);
    }
    if (STATES) free_working(context->states, STATE_BYTES);
    free_process_state(context->process);
    free(context);
}

/* Return the largest number of threads for which any step has work. */
static uint32_t max_useful_threads(void) {
    uint32_t most = 1;
    for (uint32_t i = 0; i < PHASES; i++) {
        uint32_t chunks = min_chunks(&run_table[i], run_table[i].rows);
        if (chunks > most) most = chunks;
    }
    return most;
}

/* Return the plan predicted to be the fastest among those that these CPUs allow, or NULL if there is none. The table is
 * sorted by predicted time, fastest first, and ends with a plan of no threads. */
static const struct engine_plan *fitting_plan(const uint16_t *cpus, uint32_t count) {
    current_core(); /* makes the selector detect the core types */
    for (const struct engine_plan *plan = plan_table; plan->threads; plan++)
        if (plan_fits(plan, cpus, count)) return plan;
    return NULL;
}

MAVCG_PRIVATE int choose_threads(const mavcg_options *options, struct thread_choice *choice) {
    static const mavcg_options defaults = {DEFAULT_THREADS, 0, {0, 0}};
    if (!options) options = &defaults;
    if (options->threads < 0 || options->threads > MAX_THREADS || options->flags & ~(uint32_t)MAVCG_PIN ||
        options->reserved[0] || options->reserved[1])
        return MAVCG_ERROR_OPTION;
    if (!has_base_features()) return MAVCG_ERROR_CPU;
    uint16_t list[MAX_THREADS];
    uint32_t cpus = allowed_cpus(list, MAX_THREADS), threads = (uint32_t)options->threads;
    uint32_t listed = cpus < MAX_THREADS ? cpus : MAX_THREADS;
    const struct engine_plan *plan = threads ? NULL : fitting_plan(list, listed);
    if (!threads) threads = plan ? plan->threads : listed;
    if (threads > max_useful_threads()) threads = max_useful_threads();
    *choice = (struct thread_choice){plan, threads, cpus};
    return MAVCG_OK;
}

MAVCG_PRIVATE int create_context(const mavcg_options *options, const struct shared_memory *shared,
                                 struct mavcg_context **created) {
    if (!created) return MAVCG_ERROR_NULL;
    *created = NULL;
    struct thread_choice choice;
    int status = choose_threads(options, &choice);
    if (status) return status;
    uint32_t threads = choice.threads;
    if (shared && threads > shared->max_threads) threads = shared->max_threads;
    struct mavcg_context *context = aligned_bytes(sizeof *context, _Alignof(struct mavcg_context));
    if (!context) return MAVCG_ERROR_MEMORY;
    memset(context, 0, sizeof *context);
    context->threads = threads;
    context->end = PHASES;
    context->flags = options ? options->flags : 0;
    context->plan = choice.plan;
    context->shared = shared;
    /* With more threads than CPUs, a polling thread would occupy the CPU that the awaited thread needs. */
    context->pool.spin_ns = threads <= choice.cpus ? spin_time_ns() : 0;
    context->arena = shared ? shared->arena : working_bytes(ARENA_BYTES, ARENA_ALIGN);
    context->scratch = shared ? shared->scratch : working_bytes(threads * (size_t)SCRATCH_STRIDE, SCRATCH_ALIGN);
    if (STATES) context->states = working_bytes(STATE_BYTES, ARENA_ALIGN);
    context->operands = calloc(OPERANDS + 1, sizeof *context->operands);
    context->pool.threads = calloc(threads ? threads : 1, sizeof *context->pool.threads);
    context->process = create_process_state(&context->cleared_in_child);
    bool shaped = create_shape(context) && create_counted(context);
    if (!context->arena || !context->scratch || !context->operands || !context->pool.threads || !context->process ||
        !shaped || (STATES && !context->states)) {
        free_context(context);
        return MAVCG_ERROR_MEMORY;
    }
    set_initial_states(context);
    resolve_operands(context);
    context->library = shared ? NULL : keep_loaded(&run_table);
    *created = context;
    return MAVCG_OK;
}

MAVCG_PRIVATE void *destroy_context(struct mavcg_context *context) {
    if (!context) return NULL;
    void *library = context->library;
    if (context->process->workers == this_process(context)) stop_workers(context);
    free_context(context);
    return library;
}
