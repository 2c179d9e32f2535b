/* The engine of one model, as one translation unit with its tables: only the API leaves it. */
#include "engine.h"
#include "mavcg_model_tables.h" /* generated, see runtime/model_text.py */

MAVCG_DECLARE(MAVCG_SET)

#define x86_needs base_needs
#include "x86.c"

#include "engine_system.c"
#include "engine_wait.c"
#include "engine_pool.c"
#include "engine_context.c"
#include "engine_run.c"

static const char *api_error_text(int status) {
    switch (status) {
    case MAVCG_OK: return "done";
    case MAVCG_CANCELLED: return "the run was cancelled from another thread";
    case MAVCG_BUSY: return "the context is in a run already; use one context a thread";
    case MAVCG_ERROR_NULL: return "a pointer that must be there is NULL";
    case MAVCG_ERROR_SIZE: return "an input or output has not the size that the model needs";
    case MAVCG_ERROR_ALIGNMENT: return "an input or output does not lie at a multiple of its element size";
    case MAVCG_ERROR_OVERLAP: return "an output shares memory with an input or with another output";
    case MAVCG_ERROR_OPTION: return "an option is out of range: threads is 0 to 1024, reserved fields are 0";
    case MAVCG_ERROR_MEMORY: return "there is no memory for the context";
    case MAVCG_ERROR_THREADS: return "the system does not let the context start its threads; ask for fewer";
    case MAVCG_ERROR_CPU: return "the processor lacks instructions that every version needs (x86: AVX2 and FMA)";
    default: return "not a status of this library";
    }
}

static int api_create(const mavcg_options *options, void **context) {
    return create_context(options, (struct mavcg_context **)context);
}

static void api_destroy(void *context) { destroy_context(context); }

static int api_run(void *context, const void *const *inputs, void *const *outputs) {
    int status = check_arguments(context, inputs, NULL, outputs, NULL);
    return status ? status : run_model(context, inputs, outputs, NULL);
}

static int api_run_sized(void *context, const void *const *inputs, const size_t *input_bytes, void *const *outputs,
                         const size_t *output_bytes) {
    if ((INPUTS && !input_bytes) || (OUTPUTS && !output_bytes)) return MAVCG_ERROR_NULL;
    int status = check_arguments(context, inputs, input_bytes, outputs, output_bytes);
    return status ? status : run_model(context, inputs, outputs, NULL);
}

static int api_profile(void *context, const void *const *inputs, void *const *outputs, double *step_ns) {
    if (STEPS && !step_ns) return MAVCG_ERROR_NULL;
    int status = check_arguments(context, inputs, NULL, outputs, NULL);
    return status ? status : run_model(context, inputs, outputs, step_ns);
}

static int api_cancel(void *context) {
    if (!context) return MAVCG_ERROR_NULL;
    __atomic_store_n(&((struct mavcg_context *)context)->cancelled, 1, __ATOMIC_RELAXED);
    return MAVCG_OK;
}

static int api_threads(const void *context) {
    return context ? (int)((const struct mavcg_context *)context)->threads : MAVCG_ERROR_NULL;
}

static const mavcg_tensor *api_inputs(size_t *count) {
    if (count) *count = INPUTS;
    return model_inputs;
}

static const mavcg_tensor *api_outputs(size_t *count) {
    if (count) *count = OUTPUTS;
    return model_outputs;
}

static const mavcg_step *api_steps(size_t *count) {
    if (count) *count = STEPS;
    return model_steps;
}

static const mavcg_model_table model_table = {
    MAVCG_MODEL_API, INPUTS,      OUTPUTS,     STEPS,         MODEL_NAME,      model_inputs,    model_outputs, model_steps,
    ARENA_BYTES,     SCRATCH_BYTES, CONSTANTS_BYTES, api_create, api_destroy,  api_run,         api_run_sized, api_profile,
    api_cancel,      api_threads, api_error_text,
};

/* The exported names. They are aliases: inside the library nothing goes by way of a name that another library of the
 * program may have too. */
#define MODEL_JOIN(model, name) model##_##name
#define MODEL_PASTE(model, name) MODEL_JOIN(model, name)
#define EXPORT(name) \
    extern __typeof__(api_##name) MODEL_PASTE(MAVCG_MODEL, name) __attribute__((alias("api_" #name), visibility("default")))

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

/* For programs that load any model library. */
__attribute__((visibility("default"))) const mavcg_model_table *mavcg_model_api(void) { return &model_table; }
