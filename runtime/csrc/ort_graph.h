/* A graph of ONNX Runtime as numbers, and the nodes of it that a subgraph of the library computes. */
#ifndef MAVCG_ORT_GRAPH_H
#define MAVCG_ORT_GRAPH_H

#include <stdbool.h>

#include "drop_in.h"
#include "internal.h"
#include "ort_provider_api.h"

enum { NO_NODE = -1 };

/* name: the runtime's. producer: the node that makes it, or NO_NODE. constant: its value is in the file. result: of the
 * graph. */
struct graph_value {
    const char *name;
    int32_t producer;
    bool constant, result;
};

/* Inputs of node n, implicit ones too, are inputs[first_input[n]] to inputs[first_input[n + 1] - 1], numbers of values;
 * outputs likewise. owner: the subgraph that a node was claimed for, or NO_NODE. slots: of a hash table of names. */
struct graph_view {
    const struct ort_graph_api *api;
    uint32_t node_count, value_count, slot_count;
    const ort_node **nodes;
    uint32_t *first_input, *first_output, *inputs, *outputs, *slots;
    int32_t *owner;
    struct graph_value *values;
};

/* Read a graph. Returns NULL, or an error; free_graph_view is called in both cases. */
MAVCG_PRIVATE ort_status *read_graph_view(const struct ort_graph_api *api, const ort_graph *graph,
                                          struct graph_view *view);
MAVCG_PRIVATE void free_graph_view(struct graph_view *view);

/* Make this subgraph the owner of the nodes between its inputs and its outputs. Returns their number; 0 where they
 * cannot become one node that has these inputs and outputs, or where there is no memory. */
MAVCG_PRIVATE uint32_t claim_nodes(struct graph_view *view, uint32_t op);

#endif
