/* Runs a subgraph as a kernel of ONNX Runtime. */
#include "ort_kernel.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drop_in.h"
#include "internal.h"
#include "ort_api.h"
#include "part_contexts.h"

enum { SHAPE_BYTES = 160, MAX_RANK = 16, FINGERPRINT_BYTES = 128 };

struct ort_kernel {
    const struct ort_api *api;
    const struct drop_in_part *part;
    struct part_contexts contexts;
};

MAVCG_PRIVATE ort_status *ort_error(const struct ort_api *api, int code, const char *format, ...) {
    char message[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments); /* NOLINT(clang-analyzer-valist.Uninitialized) */
    va_end(arguments);
    return api->create_status(code, message);
}

static ort_status *status_error(const struct ort_api *api, const struct drop_in_part *part, int status) {
    return ort_error(api, ORT_FAIL, "mavcg: %s: %s", part->name, part->table->error_text(status));
}

/* Check that the model was written together with this library. */
static ort_status *check_fingerprint(const struct ort_api *api, const ort_kernel_info *info,
                                     const struct drop_in_part *part) {
    char fingerprint[FINGERPRINT_BYTES] = "";
    size_t size = sizeof fingerprint;
    ort_status *status = api->kernel_info_get_attribute_string(info, "fingerprint", fingerprint, &size);
    if (status) {
        api->release_status(status);
        fingerprint[0] = 0;
    }
    if (!strcmp(fingerprint, part->fingerprint)) return NULL;
    return ort_error(api, ORT_INVALID_GRAPH,
                     "mavcg: %s: the model was written with another build of " LIBRARY_NAME
                     "; run `mavcg build --partial` again and use both files that it writes",
                     part->name);
}

MAVCG_PRIVATE ort_status *create_ort_kernel(const struct ort_custom_op *op, const struct ort_api *api,
                                            const ort_kernel_info *info, void **kernel) {
    const struct ort_part *own = (const struct ort_part *)op;
    *kernel = NULL;
    ort_status *failed = check_fingerprint(api, info, own->part);
    if (failed) return failed;
    struct ort_kernel *made = calloc(1, sizeof *made);
    if (!made) return status_error(api, own->part, MAVCG_ERROR_MEMORY);
    made->api = api;
    made->part = own->part;
    int status = create_contexts(&made->contexts, own->part->table, own->threads);
    if (status) {
        free(made);
        return status_error(api, own->part, status);
    }
    *kernel = made;
    return NULL;
}

static void write_shape(char text[SHAPE_BYTES], const int64_t *dims, size_t rank) {
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < rank && used < SHAPE_BYTES - 1; i++) {
        int length = snprintf(text + used, SHAPE_BYTES - used, "%s%lld", i ? "x" : "", (long long)dims[i]);
        used += length > 0 ? (size_t)length : 0;
    }
}

/* Check the shape of an input, which the graph may leave free. Its type ONNX Runtime has checked. */
static ort_status *check_shape(const struct ort_kernel *kernel, const ort_value *value, const mavcg_tensor *tensor) {
    const struct ort_api *api = kernel->api;
    int64_t dims[MAX_RANK];
    ort_shape *shape = NULL;
    size_t rank = 0;
    ort_status *failed = api->get_tensor_type_and_shape(value, &shape);
    if (failed) return failed;
    failed = api->get_dimensions_count(shape, &rank);
    size_t known = rank < MAX_RANK ? rank : MAX_RANK;
    if (!failed) failed = api->get_dimensions(shape, dims, known);
    api->release_tensor_type_and_shape_info(shape);
    if (failed) return failed;
    size_t dims_bytes = (size_t)tensor->rank * sizeof *dims;
    if (rank == (size_t)tensor->rank && rank <= MAX_RANK && !memcmp(dims, tensor->dims, dims_bytes)) return NULL;
    char given[SHAPE_BYTES], built[SHAPE_BYTES];
    write_shape(given, dims, known);
    write_shape(built, tensor->dims, (size_t)tensor->rank);
    return ort_error(api, ORT_INVALID_ARGUMENT,
                     "mavcg: %s: %s has shape [%s], the library was built for [%s]; build one for this shape (--shape)",
                     kernel->part->name, tensor->name, given, built);
}

static ort_status *input_data(const struct ort_kernel *kernel, const ort_kernel_context *context, uint32_t i,
                              const void **data) {
    const mavcg_tensor *tensor = &kernel->part->table->inputs[i];
    const ort_value *value = NULL;
    ort_status *failed = kernel->api->kernel_context_get_input(context, i, &value);
    if (failed) return failed;
    if (!value)
        return ort_error(kernel->api, ORT_INVALID_ARGUMENT, "mavcg: %s: %s is absent", kernel->part->name,
                         tensor->name);
    failed = check_shape(kernel, value, tensor);
    /* The interface has no accessor for constant data; it is only read. */
    return failed ? failed : kernel->api->get_tensor_mutable_data((ort_value *)value, (void **)data);
}

static ort_status *output_data(const struct ort_kernel *kernel, ort_kernel_context *context, uint32_t i, void **data) {
    const mavcg_tensor *tensor = &kernel->part->table->outputs[i];
    ort_value *value = NULL;
    ort_status *failed = kernel->api->kernel_context_get_output(context, i, tensor->dims, (size_t)tensor->rank, &value);
    if (failed) return failed;
    if (!value)
        return ort_error(kernel->api, ORT_FAIL, "mavcg: %s: no memory for %s", kernel->part->name, tensor->name);
    return kernel->api->get_tensor_mutable_data(value, data);
}

MAVCG_PRIVATE ort_status *compute_ort_kernel(void *kernel, ort_kernel_context *context) {
    struct ort_kernel *own = kernel;
    const mavcg_model_table *table = own->part->table;
    const void *inputs[MAX_INPUTS + 1];
    void *outputs[MAX_OUTPUTS + 1];
    ort_status *failed = NULL;
    for (uint32_t i = 0; !failed && i < table->input_count; i++) failed = input_data(own, context, i, &inputs[i]);
    for (uint32_t i = 0; !failed && i < table->output_count; i++) failed = output_data(own, context, i, &outputs[i]);
    if (failed) return failed;
    int status = run_part(&own->contexts, inputs, outputs);
    return status ? status_error(own->api, own->part, status) : NULL;
}

MAVCG_PRIVATE void destroy_ort_kernel(void *kernel) {
    struct ort_kernel *own = kernel;
    if (!own) return;
    destroy_contexts(&own->contexts);
    free(own);
}
