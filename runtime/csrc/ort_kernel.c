/* Runs a subgraph as a kernel of ONNX Runtime. */
#include "ort_kernel.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drop_in.h"
#include "internal.h"
#include "ort_api.h"
#include "part_contexts.h"

enum { SHAPE_BYTES = 160, STEP_BYTES = 48, FINGERPRINT_BYTES = 128, SHOWN_SHAPES = 8 };

/* A kernel. parts: one for each of the `sizes` sizes of the operator; contexts: one entry for each part. */
struct ort_kernel {
    const struct ort_api *api;
    const struct drop_in_part *parts;
    uint32_t sizes;
    struct ort_positions at;
    struct part_contexts contexts[];
};

/* An input tensor of a run. */
struct ort_input {
    const ort_value *value;
    int64_t dims[MAX_RANK];
    size_t rank;
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

static void free_ort_kernel(struct ort_kernel *kernel) {
    for (uint32_t i = 0; i < kernel->sizes; i++) destroy_contexts(&kernel->contexts[i]);
    free(kernel);
}

MAVCG_PRIVATE ort_status *new_ort_kernel(const struct ort_api *api, const struct drop_in_op *op, int threads,
                                         const struct ort_positions *positions, void **kernel) {
    const struct drop_in_part *parts = &drop_in_parts[op->first];
    struct ort_kernel *made = calloc(1, sizeof *made + op->count * sizeof *made->contexts);
    int status = made ? MAVCG_OK : MAVCG_ERROR_MEMORY;
    *kernel = NULL;
    if (status) return status_error(api, parts, status);
    made->api = api;
    made->parts = parts;
    made->at = *positions;
    for (; !status && made->sizes < op->count; made->sizes += !status)
        status = create_contexts(&made->contexts[made->sizes], parts[made->sizes].table, threads, made->sizes == 0);
    if (status) free_ort_kernel(made);
    else *kernel = made;
    return status ? status_error(api, parts, status) : NULL;
}

MAVCG_PRIVATE ort_status *create_ort_kernel(const struct ort_custom_op *op, const struct ort_api *api,
                                            const ort_kernel_info *info, void **kernel) {
    const struct ort_part *own = (const struct ort_part *)op;
    const struct drop_in_part *part = &drop_in_parts[own->own->first];
    *kernel = NULL;
    ort_status *failed = check_fingerprint(api, info, part);
    if (failed) return failed;
    struct ort_positions in_order;
    for (uint32_t i = 0; i <= MAX_INPUTS; i++) in_order.inputs[i] = i;
    for (uint32_t i = 0; i <= MAX_OUTPUTS; i++) in_order.outputs[i] = i;
    return new_ort_kernel(api, own->own, own->threads, &in_order, kernel);
}

static void write_shape(char text[SHAPE_BYTES], const int64_t *dims, size_t rank) {
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < rank && used < SHAPE_BYTES - 1; i++) {
        int length = snprintf(text + used, SHAPE_BYTES - used, "%s%lld", i ? "x" : "", (long long)dims[i]);
        used += length > 0 ? (size_t)length : 0;
    }
}

static bool fits_shape(const struct ort_input *input, const mavcg_tensor *tensor) {
    size_t dims_bytes = (size_t)tensor->rank * sizeof *input->dims;
    return input->rank == (size_t)tensor->rank && input->rank <= MAX_RANK &&
           !memcmp(input->dims, tensor->dims, dims_bytes);
}

/* Add the bounds of a part's bounded dimensions to a text: " with tokens of 1 to 512 in place of 512", or " with height
 * of 32 to 512 in steps of 32 in place of 512". */
static void write_bounds(char text[MESSAGE_BYTES], const mavcg_model_table *table) {
    size_t used = strlen(text);
    for (uint32_t i = 0; i < table->dimension_count && used < MESSAGE_BYTES - 1; i++) {
        const mavcg_dimension *dimension = &table->dimensions[i];
        char step[STEP_BYTES] = "";
        if (table->dimension_steps[i] > 1)
            snprintf(step, sizeof step, " in steps of %lld", (long long)table->dimension_steps[i]);
        int length = snprintf(text + used, MESSAGE_BYTES - used, "%s%s of %lld to %lld%s in place of %lld",
                              i ? " and " : " with ", dimension->name, (long long)dimension->least,
                              (long long)dimension->most, step, (long long)dimension->most);
        used += length > 0 ? (size_t)length : 0;
    }
}

/* True if the shape of an input is no longer than a tensor's along each axis. */
static bool fits_bounds(const struct ort_input *input, const mavcg_tensor *tensor) {
    if (input->rank != (size_t)tensor->rank || input->rank > MAX_RANK) return false;
    for (size_t i = 0; i < input->rank; i++)
        if (input->dims[i] < 0 || input->dims[i] > tensor->dims[i]) return false;
    return true;
}

/* Create an error that names the input that fits none of the sizes, or says that the inputs fit no size together, and
 * lists the sizes of the library. */
static ort_status *shape_error(const struct ort_kernel *kernel, const struct ort_input *inputs) {
    const struct drop_in_part *parts = kernel->parts;
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < parts->table->input_count; i++) {
        bool fits = false;
        for (uint32_t size = 0; size < kernel->sizes; size++)
            fits |= parts[size].table->dimension_count ? fits_bounds(&inputs[i], &parts[size].table->inputs[i])
                                                       : fits_shape(&inputs[i], &parts[size].table->inputs[i]);
        wrong = i;
        if (!fits) break;
    }
    char given[SHAPE_BYTES], built[MESSAGE_BYTES], shape[SHAPE_BYTES];
    size_t used = 0;
    write_shape(given, inputs[wrong].dims, inputs[wrong].rank < MAX_RANK ? inputs[wrong].rank : MAX_RANK);
    for (uint32_t size = 0; size < kernel->sizes && size < SHOWN_SHAPES && used < sizeof built - 1; size++) {
        const mavcg_tensor *tensor = &parts[size].table->inputs[wrong];
        write_shape(shape, tensor->dims, (size_t)tensor->rank);
        int length = snprintf(built + used, sizeof built - used, "%s[%s]", size ? ", " : "", shape);
        used += length > 0 ? (size_t)length : 0;
    }
    write_bounds(built, parts->table);
    return ort_error(kernel->api, ORT_INVALID_ARGUMENT,
                     "mavcg: %s: %s has shape [%s], the library was built for %s%s; build one for this shape (--shape)",
                     parts->name, parts->table->inputs[wrong].name, given, built,
                     kernel->sizes > SHOWN_SHAPES ? ", .." : "");
}

static ort_status *read_input(const struct ort_kernel *kernel, const ort_kernel_context *context, uint32_t i,
                              struct ort_input *input) {
    const struct ort_api *api = kernel->api;
    ort_shape *shape = NULL;
    ort_status *failed = api->kernel_context_get_input(context, kernel->at.inputs[i], &input->value);
    if (failed) return failed;
    if (!input->value)
        return ort_error(api, ORT_INVALID_ARGUMENT, "mavcg: %s: %s is absent", kernel->parts->name,
                         kernel->parts->table->inputs[i].name);
    failed = api->get_tensor_type_and_shape(input->value, &shape);
    if (failed) return failed;
    failed = api->get_dimensions_count(shape, &input->rank);
    if (!failed) failed = api->get_dimensions(shape, input->dims, input->rank < MAX_RANK ? input->rank : MAX_RANK);
    api->release_tensor_type_and_shape_info(shape);
    return failed;
}

/* Find the size whose input shapes are these; the graph may leave shapes free. ONNX Runtime has already checked the
 * types. A part with bounded dimensions is the only size, whose context compares the shapes. */
static ort_status *choose_size(const struct ort_kernel *kernel, const struct ort_input *inputs, uint32_t *chosen) {
    const mavcg_model_table *first = kernel->parts->table;
    *chosen = 0;
    if (first->dimension_count) {
        for (uint32_t i = 0; i < first->input_count; i++)
            if (!fits_bounds(&inputs[i], &first->inputs[i])) return shape_error(kernel, inputs);
        return NULL;
    }
    for (uint32_t size = 0; size < kernel->sizes; size++) {
        const mavcg_model_table *table = kernel->parts[size].table;
        bool fits = true;
        for (uint32_t i = 0; fits && i < table->input_count; i++) fits = fits_shape(&inputs[i], &table->inputs[i]);
        *chosen = size;
        if (fits) return NULL;
    }
    return shape_error(kernel, inputs);
}

static ort_status *output_data(const struct ort_kernel *kernel, const struct drop_in_part *part,
                               ort_kernel_context *context, const mavcg_tensor *tensor, uint32_t i, void **data) {
    ort_value *value = NULL;
    ort_status *failed = kernel->api->kernel_context_get_output(context, kernel->at.outputs[i], tensor->dims,
                                                                (size_t)tensor->rank, &value);
    if (failed) return failed;
    if (!value) return ort_error(kernel->api, ORT_FAIL, "mavcg: %s: no memory for %s", part->name, tensor->name);
    return kernel->api->get_tensor_mutable_data(value, data);
}

MAVCG_PRIVATE ort_status *compute_ort_kernel(void *kernel, ort_kernel_context *context) {
    struct ort_kernel *own = kernel;
    uint32_t size = 0, input_count = own->parts->table->input_count, output_count = own->parts->table->output_count;
    struct ort_input given[MAX_INPUTS + 1];
    const void *inputs[MAX_INPUTS + 1];
    void *outputs[MAX_OUTPUTS + 1];
    ort_status *failed = NULL;
    given[0].rank = 0; /* for a part without inputs */
    for (uint32_t i = 0; !failed && i < input_count; i++) failed = read_input(own, context, i, &given[i]);
    if (!failed) failed = choose_size(own, given, &size);
    /* The interface has no accessor for constant data; the data is only read here. */
    for (uint32_t i = 0; !failed && i < input_count; i++)
        failed = own->api->get_tensor_mutable_data((ort_value *)given[i].value, (void **)&inputs[i]);
    if (failed) return failed;
    const struct drop_in_part *part = &own->parts[size];
    struct part_contexts *contexts = &own->contexts[size];
    struct pooled_context *taken;
    const int64_t *dims[MAX_INPUTS + 1];
    for (uint32_t i = 0; i < input_count; i++) dims[i] = given[i].dims;
    int status = take_context(contexts, dims, &taken);
    if (status) return status == MAVCG_ERROR_SIZE ? shape_error(own, given) : status_error(own->api, part, status);
    const mavcg_tensor *made = taken_outputs(contexts, taken);
    for (uint32_t i = 0; !failed && i < output_count; i++)
        failed = output_data(own, part, context, &made[i], i, &outputs[i]);
    if (failed) {
        leave_context(taken);
        return failed;
    }
    status = run_taken(contexts, taken, inputs, outputs);
    return status ? status_error(own->api, part, status) : NULL;
}

MAVCG_PRIVATE void destroy_ort_kernel(void *kernel) {
    if (kernel) free_ort_kernel(kernel);
}
