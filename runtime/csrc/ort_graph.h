/* A graph of ONNX Runtime with nodes and values as numbers, and the search for the nodes that a subgraph of the library
 * computes. */
#ifndef MAVCG_ORT_GRAPH_H
#define MAVCG_ORT_GRAPH_H

#include <stdbool.h>

#include "drop_in.h"
#include "internal.h"
#include "ort_provider_api.h"

enum { NO_NODE = -1 };

/* A value of the graph. name: owned by the runtime. producer: the node that computes it, or NO_NODE. constant: its data
 * is in the file. result: it is an output of the graph. */
struct graph_value {
    const char *name;
    int32_t producer;
    bool constant, result;
};

/* A graph. The inputs of node n, implicit ones included, are the values inputs[first_input[n]] to inputs[first_input[n
 * + 1] - 1]; outputs likewise. owner: per node, the subgraph that takes the node over, or NO_NODE. slots: hash table of
 * names. */
struct graph_view {
    const struct ort_graph_api *api;
    uint32_t node_count, value_count, slot_count;
    const ort_node **nodes;
    uint32_t *first_input, *first_output, *inputs, *outputs, *slots;
    int32_t *owner;
    struct graph_value *values;
};

/* Read a graph. Returns NULL, or an error; the caller must call free_graph_view in both cases. */
MAVCG_PRIVATE ort_status *read_graph_view(const struct ort_graph_api *api, const ort_graph *graph,
                                          struct graph_view *view);
MAVCG_PRIVATE void free_graph_view(struct graph_view *view);

/* Make this subgraph the owner of the nodes between its inputs and its outputs. Returns their number; 0 if they cannot
 * be fused into one node with these inputs and outputs, or without memory. */
MAVCG_PRIVATE uint32_t claim_nodes(struct graph_view *view, uint32_t op);

#endif
