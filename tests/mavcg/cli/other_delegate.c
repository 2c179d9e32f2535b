/* A delegate that is not mavcg's: it takes all nodes of a graph, and its kernel computes nothing. */
#include <stdlib.h>
#include <string.h>

#include "tflite_api.h"

static void *begin(tflite_context *context, const char *buffer, size_t length) {
    (void)context, (void)buffer, (void)length;
    return NULL;
}
static void end(tflite_context *context, void *state) { (void)context, (void)state; }
static int nothing(tflite_context *context, tflite_node *node) {
    (void)context, (void)node;
    return TFLITE_OK;
}

static int take_all(tflite_context *context, tflite_delegate *delegate) {
    tflite_ints *plan = NULL;
    if (context->get_execution_plan(context, &plan)) return TFLITE_ERROR;
    size_t bytes = sizeof *plan + (size_t)plan->size * sizeof *plan->data;
    tflite_ints *nodes = malloc(bytes);
    if (!nodes) return TFLITE_ERROR;
    memcpy(nodes, plan, bytes);
    tflite_registration kernel = {
        .init = begin, .free = end, .prepare = nothing, .invoke = nothing, .custom_name = "other", .version = 1};
    int status = context->replace_node_subsets_with_delegate_kernels(context, kernel, nodes, delegate);
    free(nodes);
    return status;
}

tflite_delegate *tflite_plugin_create_delegate(char **keys, char **values, size_t count, void *report) {
    (void)keys, (void)values, (void)count, (void)report;
    tflite_delegate *delegate = calloc(1, sizeof *delegate);
    if (delegate) delegate->prepare = take_all;
    return delegate;
}
void tflite_plugin_destroy_delegate(tflite_delegate *delegate) { free(delegate); }
