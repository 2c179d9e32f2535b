/* Defines the exported functions of a model library. */
#include "engine_api.h"

#include "application_api.h"
#include "application_memory.h"
#include "engine.h"
#include "engine_context.h"
#include "engine_library.h"
#include "engine_process.h"
#include "engine_run.h"
#include "engine_shape.h"
#include "engine_stage.h"
#include "engine_state.h"

static const char *error_text_api(int status) {
    switch (status) {
    case MAVCG_OK: return "done";
    case MAVCG_CANCELLED: return "the run was cancelled from another thread";
    case MAVCG_BUSY: return "the context, or another in the same memory, is in a run; use one context a thread";
    case MAVCG_ERROR_NULL: return "a pointer that must be there is NULL";
    case MAVCG_ERROR_SIZE: return "an input or output has not the size that the model needs";
    case MAVCG_ERROR_ALIGNMENT: return "an input or output does not lie at a multiple of its element size";
    case MAVCG_ERROR_OVERLAP: return "an output shares memory with an input or with another output";
    case MAVCG_ERROR_OPTION: return "an option is out of range: threads is 0 to 1024, reserved fields are 0";
    case MAVCG_ERROR_MEMORY: return "there is no memory for the context";
    case MAVCG_ERROR_THREADS: return "the system does not let the context start its threads; ask for fewer";
    case MAVCG_ERROR_CPU:
        return "the processor lacks instructions that every version needs (x86: AVX2 and FMA; for half precision "
               "FEAT_FP16 or AVX512-FP16)";
    case MAVCG_ERROR_INDEX: return "an index in an input, or computed from one, is outside of the tensor it counts in";
    case MAVCG_ERROR_STATE:
        return "the states are undefined, as a run did not end: reset or restore them; or those to restore are another "
               "model's";
    case MAVCG_ERROR_ACCELERATOR: return "the accelerator stopped or did not answer; its host side has a text";
    default: return "not a status of this library";
    }
}

static int create_api(const mavcg_options *options, void **context) {
    return create_context(options, NULL, (struct mavcg_context **)context);
}

/* unload_library may unmap this code, so it must be a tail call: it returns to the caller of destroy. */
static void destroy_api(void *context) {
    void *library = destroy_context(context);
    void (*unload)(void *) = unload_library;
    __asm__("" : "+r"(unload)); /* call by address: on aarch64 a tail call cannot name a weak symbol */
    if (library) LAST_CALL unload(library);
}

static int run_api(void *context, const void *const *inputs, void *const *outputs) {
    int status = check_arguments(context, inputs, NULL, outputs, NULL);
    return status ? status : run_model(context, inputs, outputs, NULL);
}

static int run_sized_api(void *context, const void *const *inputs, const size_t *input_bytes, void *const *outputs,
                         const size_t *output_bytes) {
    if ((INPUTS && !input_bytes) || (OUTPUTS && !output_bytes)) return MAVCG_ERROR_NULL;
    int status = check_arguments(context, inputs, input_bytes, outputs, output_bytes);
    return status ? status : run_model(context, inputs, outputs, NULL);
}

static int profile_api(void *context, const void *const *inputs, void *const *outputs, double *step_ns) {
    if (STEPS && !step_ns) return MAVCG_ERROR_NULL;
    int status = check_arguments(context, inputs, NULL, outputs, NULL);
    return status ? status : run_model(context, inputs, outputs, step_ns);
}

static int cancel_api(void *context) {
    if (!context) return MAVCG_ERROR_NULL;
    cancel_run(context);
    return MAVCG_OK;
}

static int threads_api(const void *context) {
    return context ? (int)((const struct mavcg_context *)context)->threads : MAVCG_ERROR_NULL;
}

static int reset_api(void *context) { return reset_states(context); }

static size_t state_size_api(const void *context) { return context ? SAVED_BYTES : 0; }

static int state_save_api(void *context, void *buffer, size_t bytes) { return save_states(context, buffer, bytes); }

static int state_restore_api(void *context, const void *buffer, size_t bytes) {
    return restore_states(context, buffer, bytes);
}

static const mavcg_tensor *inputs_api(size_t *count) {
    if (count) *count = INPUTS;
    return inputs_table;
}

static const mavcg_tensor *outputs_api(size_t *count) {
    if (count) *count = OUTPUTS;
    return outputs_table;
}

static const mavcg_tensor *states_api(size_t *count) {
    if (count) *count = STATES;
    return states_table;
}

static const mavcg_step *steps_api(size_t *count) {
    if (count) *count = STEPS;
    return steps_table;
}

#if DIMENSIONS /* the model has bounded dimensions */

static int set_shape_api(void *context, const int64_t *const *dims) {
    return context ? set_shape(context, dims) : MAVCG_ERROR_NULL;
}

static const mavcg_tensor *context_inputs_api(const void *context) {
    return context ? ((const struct mavcg_context *)context)->inputs : inputs_table;
}

#endif

#if DIMENSIONS || COUNTED_OUTPUTS

static const mavcg_tensor *context_outputs_api(const void *context) {
    const struct mavcg_context *of = context;
    return !of ? outputs_table : of->present ? of->present : of->outputs;
}

#endif

static const mavcg_model_table model_table = {
    .api = MAVCG_MODEL_API,
    .input_count = INPUTS,
    .output_count = OUTPUTS,
    .step_count = STEPS,
    .name = MODEL_NAME,
    .inputs = inputs_table,
    .outputs = outputs_table,
    .steps = steps_table,
    .arena_bytes = ARENA_BYTES,
    .scratch_bytes = SCRATCH_BYTES,
    .constants_bytes = CONSTANTS_BYTES,
    .create = create_api,
    .destroy = destroy_api,
    .run = run_api,
    .run_sized = run_sized_api,
    .profile = profile_api,
    .cancel = cancel_api,
    .threads = threads_api,
    .error_text = error_text_api,
    .state_count = STATES,
    .states = states_table,
    .state_bytes = STATE_BYTES,
    .reset = reset_api,
    .state_size = state_size_api,
    .state_save = state_save_api,
    .state_restore = state_restore_api,
#if DIMENSIONS
    .dimension_count = DIMENSIONS,
    .dimensions = dimension_table,
    .dimension_steps = dimension_steps,
    .set_shape = set_shape_api,
    .context_inputs = context_inputs_api,
#endif
#if DIMENSIONS || COUNTED_OUTPUTS
    .context_outputs = context_outputs_api,
#endif
#if COUNTED_OUTPUTS
    .counted_count = COUNTED_OUTPUTS,
    .counted = counted_table,
#endif
};

/* Export the functions as mavcg_model_<model>_create and so on, so that no model's name can make them equal to a libc
 * function. The exported names are aliases: calls inside the library do not use a name that another library of the
 * program may define too. The C names differ from the exported ones because a model may have any name. */
#define EXPORT(name)                                                           \
    extern __typeof__(name##_api) exported_##name __asm__(MODEL_API "_" #name) \
        __attribute__((alias(#name "_api"), visibility("default")))

EXPORT(create);
EXPORT(destroy);
EXPORT(run);
EXPORT(run_sized);
EXPORT(profile);
EXPORT(cancel);
EXPORT(threads);
EXPORT(inputs);
EXPORT(outputs);
EXPORT(steps);
EXPORT(error_text);
EXPORT(states);
EXPORT(reset);
EXPORT(state_size);
EXPORT(state_save);
EXPORT(state_restore);
#if DIMENSIONS
EXPORT(set_shape);
EXPORT(context_inputs);
#endif
#if DIMENSIONS || COUNTED_OUTPUTS
EXPORT(context_outputs);
#endif

#if defined(MODEL_IN_APPLICATION) /* this engine belongs to one network of an application */

static int create_in_application(const mavcg_options *options, const struct shared_memory *memory, void **context) {
    return create_context(options, memory, (struct mavcg_context **)context);
}

static int count_threads(const mavcg_options *options, uint32_t *threads) {
    struct thread_choice choice;
    int status = choose_threads(options, &choice);
    if (!status) *threads = choice.threads;
    return status;
}

static void destroy_in_application(void *context) { destroy_context(context); }

static void set_boundary(void *context, void (*boundary)(void *data), void *data) {
    ((struct mavcg_context *)context)->boundary = boundary;
    ((struct mavcg_context *)context)->boundary_data = data;
}

extern const struct application_network network_entry __asm__(MODEL_PART "_entry")
    __attribute__((visibility("hidden")));
const struct application_network network_entry = {
    .count_threads = count_threads,
    .create = create_in_application,
    .destroy = destroy_in_application,
    .check = check_frame,
    .counts = DIMENSIONS ? COUNTS : 0,
    .stages = STAGES,
    .stage_cpus = stage_cpus,
    .create_stage = create_stage,
    .begin_frame = begin_frame,
    .run_stage = run_stage,
    .cancel = cancel_stage,
    .set_boundary = set_boundary,
};

#endif

#if defined(MODEL_PART)
/* The table of one subgraph among several, for the library's entries of other runtimes (drop_in.h). */
extern const mavcg_model_table part_table __asm__(MODEL_PART)
    __attribute__((alias("model_table"), visibility("hidden")));
#else
/* Entry point for programs that load any model library. */
__attribute__((visibility("default"))) const mavcg_model_table *mavcg_model_api(void) { return &model_table; }
#endif
