/* Finds the nodes of a graph that a subgraph of the library computes.
 *
 * ONNX Runtime rewrites the file's graph before it queries a provider: constants are folded, nodes merged. Values keep
 * their names, so the nodes between the values that are a subgraph's inputs and outputs compute the subgraph, whatever
 * operators they have become. */
#include "ort_graph.h"

#include <stdlib.h>
#include <string.h>

enum { NO_VALUE = -1 };

/* Compute the FNV-1a hash of a name. */
static uint32_t hash_name(const char *name) {
    uint32_t hash = 2166136261u;
    for (; *name; name++) hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash;
}

/* Return the slot of a name in the hash table: it holds the number of the name's value plus 1, or 0 if the name is
 * new. */
static uint32_t *slot_of(const struct graph_view *view, const char *name) {
    uint32_t slot = hash_name(name) & (view->slot_count - 1);
    while (view->slots[slot] && strcmp(view->values[view->slots[slot] - 1].name, name) != 0)
        slot = (slot + 1) & (view->slot_count - 1);
    return &view->slots[slot];
}

static int32_t find_value(const struct graph_view *view, const char *name) { return (int32_t)*slot_of(view, name) - 1; }

typedef ort_status *count_function(const ort_node *node, size_t *count);
typedef ort_status *values_function(const ort_node *node, const ort_value_info **values, size_t count);

/* Append the numbers of a node's inputs (or outputs) to a list; absent optional ones are skipped. */
static ort_status *add_values(struct graph_view *view, const ort_node *node, count_function *count_values,
                              values_function *get_values, uint32_t *list, uint32_t *length) {
    const struct ort_graph_api *api = view->api;
    size_t count = 0;
    ort_status *failed = count_values(node, &count);
    if (failed || !count) return failed;
    const ort_value_info **infos = calloc(count, sizeof(void *));
    if (!infos) return api->base.create_status(ORT_FAIL, "mavcg: no memory to read the graph");
    failed = get_values(node, infos, count);
    for (size_t i = 0; !failed && i < count; i++) {
        const char *name = NULL;
        if (infos[i]) failed = api->get_value_info_name(infos[i], &name);
        if (failed || !name || !*name) continue;
        uint32_t *slot = slot_of(view, name);
        if (!*slot) {
            struct graph_value *value = &view->values[view->value_count];
            *value = (struct graph_value){name, NO_NODE, false, false};
            failed = api->is_constant_initializer(infos[i], &value->constant);
            if (!failed) failed = api->is_graph_output(infos[i], &value->result);
            *slot = ++view->value_count;
        }
        list[(*length)++] = *slot - 1;
    }
    free((void *)infos);
    return failed;
}

/* Count the inputs and outputs of all nodes: an upper bound of the number of values. */
static ort_status *count_uses(const struct graph_view *view, size_t *uses) {
    const struct ort_graph_api *api = view->api;
    count_function *const counts[] = {api->node_input_count, api->node_implicit_count, api->node_output_count};
    for (uint32_t n = 0; n < view->node_count; n++)
        for (uint32_t kind = 0; kind < 3; kind++) {
            size_t count = 0;
            ort_status *failed = counts[kind](view->nodes[n], &count);
            if (failed) return failed;
            *uses += count;
        }
    return NULL;
}

static bool allocate_view(struct graph_view *view, size_t uses) {
    for (view->slot_count = 16; view->slot_count < 2 * uses;) view->slot_count *= 2;
    view->first_input = calloc(view->node_count + 1, sizeof *view->first_input);
    view->first_output = calloc(view->node_count + 1, sizeof *view->first_output);
    view->inputs = calloc(uses + 1, sizeof *view->inputs);
    view->outputs = calloc(uses + 1, sizeof *view->outputs);
    view->slots = calloc(view->slot_count, sizeof *view->slots);
    view->owner = calloc(view->node_count + 1, sizeof *view->owner);
    view->values = calloc(uses + 1, sizeof *view->values);
    return view->first_input && view->first_output && view->inputs && view->outputs && view->slots && view->owner &&
           view->values;
}

MAVCG_PRIVATE ort_status *read_graph_view(const struct ort_graph_api *api, const ort_graph *graph,
                                          struct graph_view *view) {
    size_t count = 0, uses = 0;
    memset(view, 0, sizeof *view);
    view->api = api;
    ort_status *failed = api->graph_node_count(graph, &count);
    if (failed) return failed;
    view->nodes = calloc(count + 1, sizeof(void *));
    if (count > INT32_MAX / 2 || !view->nodes)
        return api->base.create_status(ORT_FAIL, "mavcg: no memory to read the graph");
    view->node_count = (uint32_t)count;
    failed = api->graph_nodes(graph, view->nodes, count);
    if (!failed) failed = count_uses(view, &uses);
    if (failed) return failed;
    if (uses > INT32_MAX / 4 || !allocate_view(view, uses))
        return api->base.create_status(ORT_FAIL, "mavcg: no memory to read the graph");
    uint32_t inputs = 0, outputs = 0;
    for (uint32_t n = 0; !failed && n < view->node_count; n++) {
        const ort_node *node = view->nodes[n];
        view->owner[n] = NO_NODE;
        failed = add_values(view, node, api->node_input_count, api->node_inputs, view->inputs, &inputs);
        if (!failed)
            failed = add_values(view, node, api->node_implicit_count, api->node_implicit, view->inputs, &inputs);
        if (!failed)
            failed = add_values(view, node, api->node_output_count, api->node_outputs, view->outputs, &outputs);
        view->first_input[n + 1] = inputs;
        view->first_output[n + 1] = outputs;
        for (uint32_t i = view->first_output[n]; i < outputs; i++) view->values[view->outputs[i]].producer = (int32_t)n;
    }
    return failed;
}

MAVCG_PRIVATE void free_graph_view(struct graph_view *view) {
    free((void *)view->nodes);
    free(view->first_input);
    free(view->first_output);
    free(view->inputs);
    free(view->outputs);
    free(view->slots);
    free(view->owner);
    free(view->values);
}

/* Flags of a value, in relation to a subgraph. LEAVES: something outside of the subgraph reads it. */
enum { INNER = 0, IS_INPUT = 1, IS_OUTPUT = 2, LEAVES = 4 };
/* Flags of a node, in relation to a subgraph. DEPENDS: the node depends on one of the subgraph's inputs. */
enum { OUTSIDE = 0, INSIDE = 1, DEPENDS = 2 };

/* Mark the nodes that compute the outputs, from the outputs back to the inputs. False if they also read other values
 * from outside of the subgraph. */
static bool mark_nodes(const struct graph_view *view, uint8_t *nodes, const uint8_t *values) {
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t n = view->node_count; n-- > 0;) {
            if (!nodes[n]) continue;
            for (uint32_t i = view->first_input[n]; i < view->first_input[n + 1]; i++) {
                const struct graph_value *value = &view->values[view->inputs[i]];
                if (value->constant || values[view->inputs[i]] & IS_INPUT) continue;
                if (value->producer == NO_NODE) return false;
                changed |= !nodes[value->producer];
                nodes[value->producer] |= INSIDE;
            }
        }
    }
    return true;
}

static void mark_dependent(const struct graph_view *view, uint8_t *nodes, const uint8_t *values) {
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t n = 0; n < view->node_count; n++) {
            if (nodes[n] != INSIDE) continue;
            for (uint32_t i = view->first_input[n]; i < view->first_input[n + 1] && nodes[n] == INSIDE; i++) {
                int32_t producer = view->values[view->inputs[i]].producer;
                if (values[view->inputs[i]] & IS_INPUT || (producer != NO_NODE && nodes[producer] & DEPENDS))
                    nodes[n] |= DEPENDS;
            }
            changed |= (nodes[n] & DEPENDS) != 0;
        }
    }
}

/* Remove nodes whose results are also read outside of the subgraph, if they depend on none of its inputs: they compute
 * constants, which stay with the runtime. False if any other inner value is read outside, or an output is not. */
static bool trim_nodes(const struct graph_view *view, uint8_t *nodes, uint8_t *values) {
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t v = 0; v < view->value_count; v++)
            values[v] = (uint8_t)((values[v] & ~LEAVES) | (view->values[v].result ? LEAVES : 0));
        for (uint32_t n = 0; n < view->node_count; n++)
            for (uint32_t i = view->first_input[n]; !nodes[n] && i < view->first_input[n + 1]; i++)
                values[view->inputs[i]] |= LEAVES;
        for (uint32_t n = 0; n < view->node_count; n++)
            for (uint32_t i = view->first_output[n]; nodes[n] && i < view->first_output[n + 1]; i++) {
                uint8_t value = values[view->outputs[i]];
                if (value & IS_OUTPUT && !(value & LEAVES)) return false;
                if (value & IS_OUTPUT || !(value & LEAVES)) continue;
                if (nodes[n] & DEPENDS) return false;
                nodes[n] = OUTSIDE;
                changed = true;
            }
    }
    return true;
}

/* True if the nodes can be ordered with those of each owner contiguous, so that no two subgraphs depend on each
 * other. */
static bool has_order(const struct graph_view *view) {
    uint32_t done_count = 0, groups = view->node_count + OPS;
    uint8_t *done = calloc(groups, 1), *ready = calloc(groups, 1);
    bool changed = done && ready;
    while (changed) {
        changed = false;
        memset(ready, 1, groups);
        for (uint32_t n = 0; n < view->node_count; n++) {
            uint32_t group = view->owner[n] == NO_NODE ? OPS + n : (uint32_t)view->owner[n];
            for (uint32_t i = view->first_input[n]; i < view->first_input[n + 1]; i++) {
                int32_t producer = view->values[view->inputs[i]].producer;
                if (producer == NO_NODE) continue;
                uint32_t from = view->owner[producer] == NO_NODE ? OPS + (uint32_t)producer
                                                                 : (uint32_t)view->owner[producer];
                if (from != group && !done[from]) ready[group] = 0;
            }
        }
        for (uint32_t group = 0; group < groups; group++)
            if (ready[group] && !done[group]) {
                done[group] = 1;
                changed = true;
            }
    }
    for (uint32_t group = 0; done && group < groups; group++) done_count += done[group];
    free(done);
    free(ready);
    return done_count == groups;
}

MAVCG_PRIVATE uint32_t claim_nodes(struct graph_view *view, uint32_t op) {
    const struct drop_in_op *own = &drop_in_ops[op];
    const mavcg_model_table *table = drop_in_parts[own->first].table;
    uint8_t *nodes = calloc(view->node_count + 1, 1), *values = calloc(view->value_count + 1, 1);
    bool fits = nodes && values;
    uint32_t count = 0;
    for (uint32_t i = 0; fits && i < table->input_count; i++) {
        int32_t value = find_value(view, own->inputs[i]);
        fits = value != NO_VALUE;
        if (fits) values[value] |= IS_INPUT;
    }
    for (uint32_t i = 0; fits && i < table->output_count; i++) {
        int32_t value = find_value(view, own->outputs[i]);
        fits = value != NO_VALUE && view->values[value].producer != NO_NODE;
        if (!fits) break;
        values[value] |= IS_OUTPUT;
        nodes[view->values[value].producer] |= INSIDE;
    }
    fits = fits && mark_nodes(view, nodes, values);
    if (fits) mark_dependent(view, nodes, values);
    fits = fits && trim_nodes(view, nodes, values);
    for (uint32_t n = 0; fits && n < view->node_count; n++) fits = !nodes[n] || view->owner[n] == NO_NODE;
    for (uint32_t n = 0; fits && n < view->node_count; n++)
        if (nodes[n]) {
            view->owner[n] = (int32_t)op;
            count++;
        }
    if (count && !has_order(view)) {
        for (uint32_t n = 0; n < view->node_count; n++)
            if (view->owner[n] == (int32_t)op) view->owner[n] = NO_NODE;
        count = 0;
    }
    free(nodes);
    free(values);
    return count;
}
