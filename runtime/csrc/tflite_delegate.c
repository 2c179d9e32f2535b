/* An external delegate of TensorFlow Lite: `load_delegate(library)`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drop_in.h"
#include "internal.h"
#include "numbers.h"
#include "part_contexts.h"
#include "tflite_api.h"
#include "tflite_file.h"
#include "tflite_kernel.h"

static void say(const struct own_delegate *own, const char *text) {
    if (!own->quiet) dprintf(STDERR_FILENO, "INFO: mavcg: " LIBRARY_NAME ": %s\n", text);
}

/* True if a subgraph fits the graph's shapes, and no other delegate has its results. */
static bool may_take(const tflite_context *context, const tflite_delegate *delegate, const struct drop_in_part *part) {
    if (!fits_part(context, part)) return false;
    for (uint32_t i = 0; i < part->table->output_count; i++) {
        /* The runtime refuses to give a tensor to two delegates; after a resize, XNNPACK's delegate still has its
         * own. */
        const tflite_delegate *owner = context->tensors[part->outputs[i]].delegate;
        if (owner && owner != delegate) return false;
    }
    return true;
}

/* Clear the owner of results from an earlier partitioning of the graph: the runtime undoes the partitioning but keeps
 * the owner. */
static void release_results(const tflite_context *context, const tflite_delegate *delegate, uint32_t graph) {
    for (uint32_t i = 0; i < PARTS; i++)
        for (uint32_t j = 0; drop_in_parts[i].graph == graph && j < drop_in_parts[i].table->output_count; j++) {
            int32_t index = drop_in_parts[i].outputs[j];
            if (index < 0 || (size_t)index >= context->tensors_size) continue;
            tflite_tensor *tensor = &context->tensors[index];
            if (tensor->delegate == delegate) tensor->delegate = NULL;
        }
}

/* Take the subgraphs of a graph that fit, of one size: the size of which most subgraphs fit, since a subgraph may fit in
 * several sizes. *fit: number of subgraphs taken. Returns the number of subgraphs that this size has. */
static uint32_t take_size(const tflite_context *context, const tflite_delegate *delegate, uint32_t graph,
                          bool taken[PARTS], uint32_t *fit) {
    uint32_t fits[PARTS] = {0}, of_size[PARTS] = {0}, size = 0;
    for (uint32_t i = 0; i < PARTS; i++) {
        taken[i] = drop_in_parts[i].graph == graph && may_take(context, delegate, &drop_in_parts[i]);
        fits[drop_in_parts[i].size] += taken[i];
        of_size[drop_in_parts[i].size] += drop_in_parts[i].graph == graph;
    }
    for (uint32_t i = 1; i < PARTS; i++)
        if (fits[i] > fits[size]) size = i;
    for (uint32_t i = 0; i < PARTS; i++) taken[i] &= drop_in_parts[i].size == size;
    *fit = fits[size];
    return of_size[size];
}

/* Store the nodes of all taken subgraphs in `nodes`, in the order of the file. */
static void list_nodes(const bool taken[PARTS], int32_t count, tflite_ints *nodes) {
    nodes->size = 0;
    for (int32_t node = 0; node < count; node++)
        for (uint32_t i = 0; i < PARTS; i++)
            for (uint32_t j = 0; taken[i] && j < drop_in_parts[i].node_count; j++)
                if (drop_in_parts[i].nodes[j] == node) nodes->data[nodes->size++] = node;
}

/* Drop the subgraphs that the runtime would not make one kernel each. Returns the number of those that are left. */
static uint32_t keep_whole(tflite_context *context, bool taken[PARTS], const tflite_ints *nodes) {
    tflite_delegate_params *partitions = NULL;
    int count = 0;
    uint32_t kept = 0;
    bool whole[PARTS] = {false};
    if (context->preview_delegate_partitioning(context, nodes, &partitions, &count)) return 0;
    for (int partition = 0; partition < count; partition++)
        for (uint32_t i = 0; i < PARTS; i++)
            whole[i] |= taken[i] && is_part(&drop_in_parts[i], partitions[partition].nodes_to_replace);
    for (uint32_t i = 0; i < PARTS; i++) kept += taken[i] = whole[i];
    return kept;
}

/* Return the number of a graph of the library's file, or GRAPHS for another one. nodes: number of its operators. */
static uint32_t find_graph(const tflite_context *context, int32_t nodes) {
    uint32_t graph = 0;
    while (graph < GRAPHS && (drop_in_graphs[graph].nodes != nodes || !is_own_graph(context, &drop_in_graphs[graph])))
        graph++;
    return graph;
}

/* True if a graph of the library's file that cannot be recognised has so many operators. */
static bool may_be_own(int32_t nodes) {
    for (uint32_t graph = 0; graph < GRAPHS; graph++)
        if (drop_in_graphs[graph].anchor_tensor < 0 && drop_in_graphs[graph].nodes == nodes) return true;
    return false;
}

/* Say what the delegate has taken of a graph; nothing of a body of control flow without subgraphs. */
static void say_taken(const struct own_delegate *own, uint32_t graph, const uint32_t counts[3], int taken_nodes) {
    char text[MESSAGE_BYTES], where[MESSAGE_BYTES / 4] = "";
    uint32_t kept = counts[0], fit = counts[1], all = counts[2];
    if (graph && !all) return;
    if (graph) snprintf(where, sizeof where, " of the file's graph %d", drop_in_graphs[graph].number);
    snprintf(
        text, sizeof text, "%u of %u subgraphs with %d of %d nodes%s%s", kept, all, kept ? taken_nodes : 0,
        drop_in_graphs[graph].nodes, where,
        fit == all ? "" : "; the runtime keeps those whose inputs have another shape, or that another delegate has");
    say(own, text);
}

static int prepare_delegate(tflite_context *context, tflite_delegate *delegate) {
    const struct own_delegate *own = (const struct own_delegate *)delegate;
    tflite_ints *plan = NULL;
    if (context->get_execution_plan(context, &plan)) return TFLITE_ERROR;
    const uint32_t graph = find_graph(context, plan->size);
    if (graph == GRAPHS) {
        say(own, may_be_own(plan->size) ? "the runtime keeps a graph that has no constant of its own"
                                        : "was built of another file; the runtime keeps this graph");
        return TFLITE_OK;
    }
    release_results(context, delegate, graph);
    bool taken[PARTS];
    uint32_t fit = 0, count = 0, before = 0, all = take_size(context, delegate, graph, taken, &fit);
    const int32_t graph_nodes = drop_in_graphs[graph].nodes;
    tflite_ints *nodes = malloc(sizeof *nodes + ((size_t)graph_nodes + 1) * sizeof *nodes->data);
    if (!nodes) return TFLITE_ERROR;
    /* Repeat until stable: without a dropped subgraph the runtime may partition the others differently. */
    for (count = fit; count != before;) {
        before = count;
        list_nodes(taken, graph_nodes, nodes);
        count = keep_whole(context, taken, nodes);
    }
    say_taken(own, graph, (const uint32_t[]){count, fit, all}, nodes->size);
    int status = TFLITE_OK;
    if (count)
        status = context->replace_node_subsets_with_delegate_kernels(context, part_registration(), nodes, delegate);
    free(nodes);
    return status;
}

/* Read the options of a delegate. Returns NULL, or a description of the fault. */
static const char *read_options(struct own_delegate *own, char **keys, char **values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(keys[i], "threads")) {
            if (!parse_thread_count(values[i], &own->threads)) return "option threads is not a number from 0 to 1024";
        } else if (!strcmp(keys[i], "quiet")) {
            if (strcmp(values[i], "0") != 0 && strcmp(values[i], "1") != 0) return "option quiet is neither 0 nor 1";
            own->quiet = values[i][0] == '1';
        } else {
            return "there are the options threads and quiet, and no others";
        }
    }
    return NULL;
}

typedef void report(const char *text);
__attribute__((visibility("default"))) tflite_delegate *tflite_plugin_create_delegate(char **keys, char **values,
                                                                                      size_t count,
                                                                                      report *report_error);
tflite_delegate *tflite_plugin_create_delegate(char **keys, char **values, size_t count, report *report_error) {
    struct own_delegate *own = calloc(1, sizeof *own);
    const char *wrong = own ? NULL : "no memory";
    if (own) {
        own->threads = LIBRARY_THREADS;
        own->delegate.prepare = prepare_delegate;
        wrong = read_options(own, keys, values, count);
    }
    if (!wrong) return &own->delegate;
    char text[MESSAGE_BYTES];
    snprintf(text, sizeof text, "mavcg: " LIBRARY_NAME ": %s", wrong);
    if (report_error) report_error(text);
    free(own);
    return NULL;
}

__attribute__((visibility("default"))) void tflite_plugin_destroy_delegate(tflite_delegate *delegate);
void tflite_plugin_destroy_delegate(tflite_delegate *delegate) { free(delegate); }
