/* Registers subgraphs as custom operators of ONNX Runtime: `session_options.register_custom_ops_library(library)` */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "drop_in.h"
#include "internal.h"
#include "numbers.h"
#include "ort_api.h"
#include "ort_kernel.h"
#include "part_contexts.h"

enum { THREADS_BYTES = 16 };
static const char threads_key[] = "mavcg.threads"; /* key in a session's configuration */

/* The ONNXTensorElementDataType of each enum mavcg_type. */
static const uint8_t ort_types[] = {
    [MAVCG_F32] = 1, [MAVCG_U8] = 2,   [MAVCG_I8] = 3,   [MAVCG_U16] = 4,  [MAVCG_I16] = 5,  [MAVCG_I32] = 6,
    [MAVCG_I64] = 7, [MAVCG_BOOL] = 9, [MAVCG_F16] = 10, [MAVCG_F64] = 11, [MAVCG_U32] = 12, [MAVCG_U64] = 13,
};

/* The objects created by one call of RegisterCustomOps. ONNX Runtime keeps pointers to them as long as the library is
 * loaded. */
struct registration {
    struct registration *next;
    const struct ort_api *api;
    ort_domain *domain;
    struct ort_part parts[OPS];
};

static struct registration *registrations; /* linked list; entries are pushed atomically */

/* Return the operator's part in the first size; all sizes have arguments of the same types. */
static const struct drop_in_part *part_of(const struct ort_custom_op *op) {
    return &drop_in_parts[((const struct ort_part *)op)->own->first];
}
static const mavcg_model_table *table_of(const struct ort_custom_op *op) { return part_of(op)->table; }
static const char *get_name(const struct ort_custom_op *op) { return part_of(op)->name; }
/* Return the name of the CPU's execution provider. */
static const char *provider(const struct ort_custom_op *op) {
    (void)op;
    return NULL;
}
static size_t input_count(const struct ort_custom_op *op) { return table_of(op)->input_count; }
static size_t output_count(const struct ort_custom_op *op) { return table_of(op)->output_count; }
static int input_type(const struct ort_custom_op *op, size_t i) { return ort_types[table_of(op)->inputs[i].type]; }
static int output_type(const struct ort_custom_op *op, size_t i) { return ort_types[table_of(op)->outputs[i].type]; }
/* Return 0, which is INPUT_OUTPUT_REQUIRED and OrtMemTypeDefault. */
static int zero_at(const struct ort_custom_op *op, size_t i) {
    (void)op;
    (void)i;
    return 0;
}

static const struct ort_custom_op part_op = {
    .version = ORT_API_VERSION,
    .get_name = get_name,
    .get_execution_provider_type = provider,
    .get_input_type = input_type,
    .get_input_type_count = input_count,
    .get_output_type = output_type,
    .get_output_type_count = output_count,
    .kernel_destroy = destroy_ort_kernel,
    .get_input_characteristic = zero_at,
    .get_output_characteristic = zero_at,
    .get_input_memory_type = zero_at,
    .create_kernel_v2 = create_ort_kernel,
    .kernel_compute_v2 = compute_ort_kernel,
};

static ort_status *read_threads(const struct ort_api *api, const ort_session_options *options, int *threads) {
    char text[THREADS_BYTES] = "";
    size_t size = sizeof text;
    int there = 0;
    *threads = LIBRARY_THREADS;
    ort_status *failed = api->has_session_config_entry(options, threads_key, &there);
    if (failed || !there) return failed;
    failed = api->get_session_config_entry(options, threads_key, text, &size);
    if (!failed && parse_thread_count(text, threads)) return NULL;
    if (failed) api->release_status(failed);
    return ort_error(api, ORT_INVALID_ARGUMENT, "mavcg: %s of the session options is not a number from 0 to %d",
                     threads_key, MOST_THREADS);
}

static ort_status *add_parts(struct registration *made, ort_session_options *options, int threads) {
    const struct ort_api *api = made->api;
    ort_status *failed = api->create_custom_op_domain("mavcg", &made->domain);
    for (uint32_t i = 0; !failed && i < OPS; i++) {
        made->parts[i] = (struct ort_part){part_op, &drop_in_ops[i], threads};
        failed = api->custom_op_domain_add(made->domain, &made->parts[i].op);
    }
    return failed ? failed : api->add_custom_op_domain(options, made->domain);
}

static void free_registration(struct registration *made) {
    if (made->domain) made->api->release_custom_op_domain(made->domain);
    free(made);
}

/* The entry point that ONNX Runtime calls. */
__attribute__((visibility("default"))) ort_status *RegisterCustomOps(ort_session_options *options,
                                                                     const struct ort_api_base *base);
ort_status *RegisterCustomOps(ort_session_options *options, const struct ort_api_base *base) {
    const struct ort_api *api = base->get_api(ORT_API_VERSION);
    int threads;
    if (!api) {
        const struct ort_api *older = base->get_api(1);
        return older
                   ? ort_error(older, ORT_FAIL, "mavcg: " LIBRARY_NAME " needs ONNX Runtime 1.16 or later; this is %s",
                               base->get_version_string())
                   : NULL;
    }
    ort_status *failed = read_threads(api, options, &threads);
    if (failed) return failed;
    struct registration *made = calloc(1, sizeof *made);
    if (!made) return ort_error(api, ORT_FAIL, "mavcg: no memory to register " LIBRARY_NAME);
    made->api = api;
    failed = add_parts(made, options, threads);
    if (failed) {
        free_registration(made);
        return failed;
    }
    made->next = __atomic_load_n(&registrations, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&registrations, &made->next, made, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {}
    return NULL;
}

/* When the library is unloaded, no session uses the registrations any more. */
__attribute__((destructor)) static void free_registrations(void) {
    for (struct registration *made = registrations, *next; made; made = next) {
        next = made->next;
        free_registration(made);
    }
    registrations = NULL;
}
