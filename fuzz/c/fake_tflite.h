/* LiteRT as a delegate sees it: a graph's tensors, its plan, partitions and the kernels that take their place. The graph
 * is that of tflite_model.h, whose constants lie in the file's bytes. */
#ifndef FUZZ_FAKE_TFLITE_H
#define FUZZ_FAKE_TFLITE_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tflite_api.h"
#include "tflite_model.h"

enum { TENSORS = sizeof file_tensors / sizeof *file_tensors, FAKE_DIMS = 6, FAKE_F32 = 1, PLACE_FLOATS = 64 };

struct fake_dims {
    int size, data[FAKE_DIMS];
};

/* What the functions answer. fail_at: number of the call that fails, from 1; 0: none does. */
static struct fake_tflite {
    int calls, fail_at, errors, partition_count, has_kernel;
    tflite_context context;
    tflite_tensor tensors[TENSORS];
    struct fake_dims dims[TENSORS], plan, partitions[4], replaced;
    float places[TENSORS][PLACE_FLOATS];
    tflite_delegate_params params[4];
    tflite_registration kernel;
    const tflite_delegate *delegate;
} fake;

static int fake_call(void) { return ++fake.calls == fake.fail_at ? TFLITE_ERROR : TFLITE_OK; }

static int fake_plan(tflite_context *context, tflite_ints **plan) {
    (void)context;
    if (fake_call()) return TFLITE_ERROR;
    *plan = (tflite_ints *)(void *)&fake.plan;
    return TFLITE_OK;
}

static int fake_preview(tflite_context *context, const tflite_ints *nodes, tflite_delegate_params **partitions,
                        int *count) {
    (void)context;
    if (fake_call()) return TFLITE_ERROR;
    if (fake.partition_count < 0) { /* as the runtime does it where nothing is between the nodes */
        fake.partitions[0].size = nodes->size;
        memcpy(fake.partitions[0].data, nodes->data, (size_t)nodes->size * sizeof *nodes->data);
    }
    for (int i = 0; i < 4; i++) fake.params[i].nodes_to_replace = (tflite_ints *)(void *)&fake.partitions[i];
    *partitions = fake.params;
    *count = fake.partition_count < 0 ? 1 : fake.partition_count;
    return TFLITE_OK;
}

static int fake_replace(tflite_context *context, tflite_registration registration, const tflite_ints *nodes,
                        tflite_delegate *delegate) {
    (void)context;
    if (fake_call()) return TFLITE_ERROR;
    if (nodes->size < 1 || nodes->size > FILE_NODES) abort();
    fake.replaced.size = nodes->size;
    memcpy(fake.replaced.data, nodes->data, (size_t)nodes->size * sizeof *nodes->data);
    fake.kernel = registration, fake.delegate = delegate, fake.has_kernel = 1;
    return TFLITE_OK;
}

static void fake_error(tflite_context *context, const char *format, ...) {
    char text[1024];
    va_list arguments;
    (void)context;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!*text) abort();
    fake.errors++;
}

/* A graph as the runtime has it when it applies a delegate. */
static void fake_graph(void) {
    memset(&fake, 0, sizeof fake);
    fake.partition_count = -1;
    fake.plan.size = FILE_NODES;
    for (int i = 0; i < FILE_NODES && i < FAKE_DIMS; i++) fake.plan.data[i] = i;
    for (int i = 0; i < (int)TENSORS; i++) {
        const struct file_tensor *from = &file_tensors[i];
        fake.dims[i].size = from->rank;
        memcpy(fake.dims[i].data, from->dims, sizeof from->dims);
        fake.tensors[i] = (tflite_tensor){.type = FAKE_F32, .dims = (tflite_ints *)(void *)&fake.dims[i]};
        if (from->offset >= 0) {
            fake.tensors[i].allocation_type = TFLITE_MMAP_RO;
            fake.tensors[i].data = (void *)(uintptr_t)(file_bytes + from->offset);
        } else {
            fake.tensors[i].data = fake.places[i];
        }
    }
    fake.context = (tflite_context){
        .tensors_size = TENSORS,
        .tensors = fake.tensors,
        .get_execution_plan = fake_plan,
        .report_error = fake_error,
        .replace_node_subsets_with_delegate_kernels = fake_replace,
        .preview_delegate_partitioning = fake_preview,
    };
}

typedef void fake_report(const char *text);
tflite_delegate *tflite_plugin_create_delegate(char **keys, char **values, size_t count, fake_report *report_error);
void tflite_plugin_destroy_delegate(tflite_delegate *delegate);

#endif
