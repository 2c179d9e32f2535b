/* Runs a subgraph as a delegate kernel of TensorFlow Lite. */
#include "tflite_kernel.h"

#include <stdlib.h>

#include "drop_in.h"
#include "internal.h"
#include "part_contexts.h"
#include "tflite_api.h"
#include "tflite_file.h"

struct part_kernel {
    const struct drop_in_part *part;
    struct part_contexts contexts;
};

/* The TfLiteType of each enum mavcg_type. */
static const uint8_t tflite_types[] = {
    [MAVCG_F32] = 1, [MAVCG_I32] = 2,  [MAVCG_U8] = 3,   [MAVCG_I64] = 4,  [MAVCG_BOOL] = 6, [MAVCG_I16] = 7,
    [MAVCG_I8] = 9,  [MAVCG_F16] = 10, [MAVCG_F64] = 11, [MAVCG_U64] = 13, [MAVCG_U32] = 16, [MAVCG_U16] = 17,
};

MAVCG_PRIVATE bool is_part(const struct drop_in_part *part, const tflite_ints *nodes) {
    if (nodes->size < 0 || (uint32_t)nodes->size != part->node_count) return false;
    for (uint32_t i = 0; i < part->node_count; i++)
        if (nodes->data[i] != part->nodes[i]) return false;
    return true;
}

static bool fits_tensor(const tflite_context *context, int index, const mavcg_tensor *tensor) {
    if (index < 0 || (size_t)index >= context->tensors_size) return false;
    const tflite_tensor *own = &context->tensors[index];
    if (own->type != tflite_types[tensor->type] || !own->dims || own->dims->size != tensor->rank) return false;
    for (int32_t i = 0; i < tensor->rank; i++)
        if (own->dims->data[i] != tensor->dims[i]) return false;
    return true;
}

static bool fits_tensors(const tflite_context *context, const int32_t *indices, const mavcg_tensor *tensors,
                         uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!fits_tensor(context, indices[i], &tensors[i])) return false;
    return true;
}

/* The present dimensions of a part's inputs. */
struct input_dims {
    int64_t lengths[MAX_INPUTS + 1][MAX_RANK];
    const int64_t *dims[MAX_INPUTS + 1];
};

/* Read the dimensions of a part's inputs; returns false for an input of another rank. */
static bool read_dims(const tflite_context *context, const struct drop_in_part *part, struct input_dims *read) {
    for (uint32_t i = 0; i < part->table->input_count; i++) {
        if (part->inputs[i] < 0 || (size_t)part->inputs[i] >= context->tensors_size) return false;
        const tflite_ints *dims = context->tensors[part->inputs[i]].dims;
        if (!dims || dims->size != part->table->inputs[i].rank || dims->size > MAX_RANK) return false;
        for (int axis = 0; axis < dims->size; axis++) read->lengths[i][axis] = dims->data[axis];
        read->dims[i] = read->lengths[i];
    }
    return true;
}

/* True if the tensors are those of a run of a part with bounded dimensions: a context of its own compares them. */
static bool fits_run(const tflite_context *context, const struct drop_in_part *part) {
    const mavcg_model_table *table = part->table;
    const mavcg_options options = {.threads = 1};
    struct input_dims read;
    void *tried = NULL;
    if (!read_dims(context, part, &read) || table->create(&options, &tried)) return false;
    bool fits = !table->set_shape(tried, read.dims) &&
                fits_tensors(context, part->inputs, table->context_inputs(tried), table->input_count) &&
                fits_tensors(context, part->outputs, table->context_outputs(tried), table->output_count);
    table->destroy(tried);
    return fits;
}

MAVCG_PRIVATE bool fits_part(const tflite_context *context, const struct drop_in_part *part) {
    const mavcg_model_table *table = part->table;
    if (table->dimension_count) return fits_run(context, part);
    return fits_tensors(context, part->inputs, table->inputs, table->input_count) &&
           fits_tensors(context, part->outputs, table->outputs, table->output_count);
}

/* Return the part that has these nodes and fits the graph's shapes; of several graphs' parts, that of this graph. NULL:
 * there is none. */
static const struct drop_in_part *find_part(const tflite_context *context, const tflite_ints *nodes) {
    const struct drop_in_part *found = NULL;
    bool ambiguous = false;
    for (uint32_t i = 0; i < PARTS; i++) {
        const struct drop_in_part *part = &drop_in_parts[i];
        if (!is_part(part, nodes) || !fits_part(context, part)) continue;
        ambiguous |= found && found->graph != part->graph;
        if (!found) found = part;
    }
    if (!ambiguous) return found;
    for (uint32_t i = 0; i < PARTS; i++) {
        const struct drop_in_part *part = &drop_in_parts[i];
        if (is_part(part, nodes) && fits_part(context, part) && is_own_graph(context, &drop_in_graphs[part->graph]))
            return part;
    }
    return NULL;
}

static void *init_kernel(tflite_context *context, const char *buffer, size_t length) {
    const tflite_delegate_params *params = (const tflite_delegate_params *)(const void *)buffer;
    const struct drop_in_part *part = find_part(context, params->nodes_to_replace);
    (void)length; /* 0 for delegate kernels */
    if (!part) return NULL;
    struct part_kernel *made = calloc(1, sizeof *made);
    int threads = ((const struct own_delegate *)params->delegate)->threads, status = MAVCG_ERROR_MEMORY;
    if (made) {
        made->part = part;
        status = create_contexts(&made->contexts, part->table, threads, true);
    }
    if (!status) return made;
    context->report_error(context, "mavcg: %s: %s", part->name, part->table->error_text(status));
    free(made);
    return NULL;
}

static void free_kernel(tflite_context *context, void *state) {
    struct part_kernel *kernel = state;
    (void)context;
    if (!kernel) return;
    destroy_contexts(&kernel->contexts);
    free(kernel);
}

/* Give a tensor the dimensions of a run. Returns a status of the runtime. */
static int resize_tensor(tflite_context *context, int index, const mavcg_tensor *tensor) {
    if (index < 0 || (size_t)index >= context->tensors_size) return TFLITE_ERROR;
    if (fits_tensor(context, index, tensor)) return TFLITE_OK;
    tflite_ints *dims = malloc(sizeof *dims + ((size_t)tensor->rank + 1) * sizeof *dims->data); /* the runtime's */
    if (!dims) return TFLITE_ERROR;
    dims->size = tensor->rank;
    for (int32_t i = 0; i < tensor->rank; i++) dims->data[i] = (int)tensor->dims[i];
    return context->resize_tensor(context, &context->tensors[index], dims);
}

/* Give the results of a part with bounded dimensions those that follow from its inputs. The runtime leaves that to the
 * kernel where it prepares a graph again without another partitioning, as that of a loop's body. */
static int resize_outputs(tflite_context *context, struct part_kernel *kernel) {
    const struct drop_in_part *part = kernel->part;
    struct pooled_context *taken;
    struct input_dims read;
    if (!read_dims(context, part, &read) || take_context(&kernel->contexts, read.dims, &taken)) return TFLITE_ERROR;
    const mavcg_tensor *outputs = taken_outputs(&kernel->contexts, taken);
    int status = TFLITE_OK;
    for (uint32_t i = 0; i < part->table->output_count && !status; i++)
        status = resize_tensor(context, part->outputs[i], &outputs[i]);
    leave_context(taken);
    return status;
}

static int prepare_kernel(tflite_context *context, tflite_node *node) {
    struct part_kernel *kernel = node->user_data;
    if (!kernel) return TFLITE_ERROR;
    const struct drop_in_part *part = kernel->part;
    if (fits_part(context, part)) return TFLITE_OK;
    if (part->table->dimension_count && !resize_outputs(context, kernel) && fits_part(context, part)) return TFLITE_OK;
    context->report_error(context, "mavcg: %s: a tensor has not the shape that the library was built for", part->name);
    return TFLITE_ERROR;
}

static int invoke_kernel(tflite_context *context, tflite_node *node) {
    struct part_kernel *kernel = node->user_data;
    const struct drop_in_part *part = kernel->part;
    const void *inputs[MAX_INPUTS + 1];
    void *outputs[MAX_OUTPUTS + 1];
    for (uint32_t i = 0; i < part->table->input_count; i++) inputs[i] = context->tensors[part->inputs[i]].data;
    for (uint32_t i = 0; i < part->table->output_count; i++) outputs[i] = context->tensors[part->outputs[i]].data;
    struct pooled_context *taken;
    struct input_dims read;
    int status = read_dims(context, part, &read) ? take_context(&kernel->contexts, read.dims, &taken)
                                                 : MAVCG_ERROR_SIZE;
    if (!status) status = run_taken(&kernel->contexts, taken, inputs, outputs);
    if (!status) return TFLITE_OK;
    context->report_error(context, "mavcg: %s: %s", part->name, part->table->error_text(status));
    return TFLITE_ERROR;
}

MAVCG_PRIVATE tflite_registration part_registration(void) {
    return (tflite_registration){
        .init = init_kernel,
        .free = free_kernel,
        .prepare = prepare_kernel,
        .invoke = invoke_kernel,
        .custom_name = "mavcg",
        .version = 1,
    };
}
