/* The library as a plug-in execution provider of ONNX Runtime: `ort.register_execution_provider_library(name,
 * library)`.
 *
 * The provider takes subgraphs over in the unchanged model that the library was built from; the runtime computes the
 * other nodes. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drop_in.h"
#include "internal.h"
#include "numbers.h"
#include "ort_graph.h"
#include "ort_kernel.h"
#include "ort_model.h"
#include "ort_provider_api.h"
#include "part_contexts.h"

enum { NAME_BYTES = 64, KEY_BYTES = 96, VALUE_BYTES = 16 };

/* name: the name under which the library was registered. option_name: the same in lower case, as ONNX Runtime spells
 * options. */
struct own_factory {
    struct ort_factory base;
    const struct ort_graph_api *api;
    char name[NAME_BYTES], option_name[NAME_BYTES];
};

struct own_provider {
    struct ort_provider base;
    const struct own_factory *factory;
    int threads;
    bool quiet;
};

struct own_compute_info {
    struct ort_compute_info base;
    void *kernel;
};

static const struct own_provider *own_of(const struct ort_provider *provider) {
    return (const struct own_provider *)provider;
}

static void say_claimed(const struct own_provider *own, const char *path, uint32_t claimed, uint32_t nodes) {
    if (own->quiet) return;
    if (!nodes) dprintf(STDERR_FILENO, "INFO: mavcg: " LIBRARY_NAME ": was built of another file than %s\n", path);
    else
        dprintf(STDERR_FILENO, "INFO: mavcg: " LIBRARY_NAME ": %u of %u subgraphs of %s%s\n", claimed, (uint32_t)OPS,
                path, claimed == OPS ? "" : "; ONNX Runtime keeps those that it has changed at their border");
}

static ort_status *add_claimed(const struct own_provider *own, const struct graph_view *view, uint32_t op,
                               uint32_t count, ort_support *support) {
    const struct ort_graph_api *api = own->factory->api;
    const struct ort_fusion_options options = {ORT_PROVIDER_VERSION, true};
    const ort_node **nodes = calloc(count, sizeof(void *));
    if (!nodes) return ort_error(&api->base, ORT_FAIL, "mavcg: no memory to claim a subgraph");
    uint32_t next = 0;
    for (uint32_t n = 0; n < view->node_count; n++)
        if (view->owner[n] == (int32_t)op) nodes[next++] = view->nodes[n];
    ort_status *failed = api->get_provider_api()->add_nodes_to_fuse(support, nodes, count, &options);
    free((void *)nodes);
    return failed;
}

static ort_status *get_capability(struct ort_provider *provider, const ort_graph *graph, ort_support *support) {
    const struct own_provider *own = own_of(provider);
    const struct ort_graph_api *api = own->factory->api;
    const ort_node *parent = NULL;
    const char *path = "";
    ort_status *failed = api->graph_parent_node(graph, &parent);
    if (failed || parent) return failed; /* subgraphs of control flow stay with the runtime */
    failed = api->graph_model_path(graph, &path);
    if (failed) return failed;
    if (!path || !is_own_model(path)) {
        say_claimed(own, path && *path ? path : "the model in memory", 0, 0);
        return NULL;
    }
    struct graph_view view;
    uint32_t claimed = 0;
    failed = read_graph_view(api, graph, &view);
    for (uint32_t op = 0; !failed && op < OPS; op++) {
        uint32_t count = claim_nodes(&view, op);
        if (count) failed = add_claimed(own, &view, op, count, support);
        claimed += count != 0;
    }
    if (!failed) say_claimed(own, path, claimed, 1);
    free_graph_view(&view);
    return failed;
}

typedef ort_status *fused_count(const ort_node *node, size_t *count);
typedef ort_status *fused_values(const ort_node *node, const ort_value_info **values, size_t count);

/* Find the positions of names among the values of a fused node. *complete: false if a name is absent. */
static ort_status *find_positions(const struct ort_graph_api *api, const ort_node *fused, fused_count *count_values,
                                  fused_values *get_values, const char *const *names, uint32_t name_count,
                                  uint32_t *positions, bool *complete) {
    size_t count = 0;
    ort_status *failed = count_values(fused, &count);
    *complete = false;
    if (failed) return failed;
    const ort_value_info **values = calloc(count + 1, sizeof(void *));
    if (!values) return ort_error(&api->base, ORT_FAIL, "mavcg: no memory to read a fused node");
    failed = get_values(fused, values, count);
    *complete = !failed;
    for (uint32_t i = 0; !failed && i < name_count; i++) {
        bool found = false;
        for (size_t j = 0; !failed && !found && j < count; j++) {
            const char *name = NULL;
            if (values[j]) failed = api->get_value_info_name(values[j], &name);
            found = !failed && name && !strcmp(name, names[i]);
            positions[i] = (uint32_t)j;
        }
        *complete &= found;
    }
    free((void *)values);
    return failed;
}

/* Find the subgraph that a fused node stands for, by the names of the node's values. */
static ort_status *find_op(const struct ort_graph_api *api, const ort_node *fused, uint32_t *op,
                           struct ort_positions *positions) {
    for (*op = 0; *op < OPS; (*op)++) {
        const struct drop_in_op *own = &drop_in_ops[*op];
        const mavcg_model_table *table = drop_in_parts[own->first].table;
        bool inputs = false, outputs = false;
        ort_status *failed = find_positions(api, fused, api->node_input_count, api->node_inputs, own->inputs,
                                            table->input_count, positions->inputs, &inputs);
        if (!failed)
            failed = find_positions(api, fused, api->node_output_count, api->node_outputs, own->outputs,
                                    table->output_count, positions->outputs, &outputs);
        if (failed || (inputs && outputs)) return failed;
    }
    return ort_error(&api->base, ORT_FAIL, "mavcg: " LIBRARY_NAME ": a node that it did not claim");
}

static ort_status *create_state(struct ort_compute_info *info, ort_compute_context *context, void **state) {
    (void)context;
    *state = ((struct own_compute_info *)info)->kernel;
    return NULL;
}
static ort_status *compute_fused(struct ort_compute_info *info, void *state, ort_kernel_context *context) {
    (void)info;
    return compute_ort_kernel(state, context);
}
static void release_state(struct ort_compute_info *info, void *state) {
    (void)info;
    (void)state; /* the compute info owns the kernel */
}

static void release_infos(struct ort_provider *provider, struct ort_compute_info **infos, size_t count) {
    (void)provider;
    for (size_t i = 0; i < count; i++) {
        struct own_compute_info *own = (struct own_compute_info *)infos[i];
        if (own) destroy_ort_kernel(own->kernel);
        free(own);
        infos[i] = NULL;
    }
}

static ort_status *compile(struct ort_provider *provider, const ort_graph **graphs, const ort_node **fused,
                           size_t count, struct ort_compute_info **infos, ort_node **context_nodes) {
    const struct own_provider *own = own_of(provider);
    const struct ort_graph_api *api = own->factory->api;
    ort_status *failed = NULL;
    size_t made = 0;
    (void)graphs;
    (void)context_nodes;
    for (; !failed && made < count; made++) {
        struct ort_positions positions = {{0}, {0}};
        uint32_t op = 0;
        infos[made] = NULL;
        struct own_compute_info *info = calloc(1, sizeof *info);
        if (!info) {
            failed = ort_error(&api->base, ORT_FAIL, "mavcg: no memory for a kernel");
            break;
        }
        info->base = (struct ort_compute_info){ORT_PROVIDER_VERSION, create_state, compute_fused, release_state};
        infos[made] = &info->base;
        failed = find_op(api, fused[made], &op, &positions);
        if (!failed) failed = new_ort_kernel(&api->base, &drop_in_ops[op], own->threads, &positions, &info->kernel);
    }
    if (failed) release_infos(provider, infos, made);
    return failed;
}

static const char *provider_name(const struct ort_provider *provider) { return own_of(provider)->factory->name; }

static const struct own_factory *factory_of(const struct ort_factory *factory) {
    return (const struct own_factory *)factory;
}
static const char *factory_name(const struct ort_factory *factory) { return factory_of(factory)->name; }
static const char *factory_vendor(const struct ort_factory *factory) {
    (void)factory;
    return "mavcg";
}
static uint32_t vendor_id(const struct ort_factory *factory) {
    (void)factory;
    return 0;
}
static const char *factory_version(const struct ort_factory *factory) {
    (void)factory;
    return "0.1.0";
}

static ort_status *get_devices(struct ort_factory *factory, const ort_device *const *devices, size_t count,
                               ort_provider_device **found, size_t most, size_t *found_count) {
    const struct ort_graph_api *api = factory_of(factory)->api;
    *found_count = 0;
    for (size_t i = 0; i < count && *found_count < most; i++) {
        if (api->device_type(devices[i]) != ORT_DEVICE_CPU) continue;
        ort_status *failed = api->get_provider_api()->create_device(factory, devices[i], NULL, NULL,
                                                                    &found[*found_count]);
        if (failed) return failed;
        (*found_count)++;
    }
    return NULL;
}

/* Read an option that was passed to add_provider_for_devices. *given: whether it was passed; text: receives its
 * value. */
static ort_status *read_option(const struct own_factory *factory, const ort_session_options *options,
                               const char *option, char text[VALUE_BYTES], bool *given) {
    char key[KEY_BYTES];
    int there = 0;
    size_t size = VALUE_BYTES;
    snprintf(key, sizeof key, "ep.%s.%s", factory->option_name, option);
    ort_status *failed = factory->api->base.has_session_config_entry(options, key, &there);
    *given = there != 0;
    if (failed || !there) return failed;
    failed = factory->api->base.get_session_config_entry(options, key, text, &size);
    if (!failed) return NULL;
    factory->api->base.release_status(failed); /* an error means that the text is too long, thus invalid */
    text[0] = 0;
    return NULL;
}

static ort_status *read_provider_options(struct own_provider *own, const ort_session_options *options) {
    const struct own_factory *factory = own->factory;
    char text[VALUE_BYTES] = "";
    bool given = false;
    own->threads = LIBRARY_THREADS;
    ort_status *failed = read_option(factory, options, "threads", text, &given);
    if (!failed && given && !parse_thread_count(text, &own->threads))
        return ort_error(&factory->api->base, ORT_INVALID_ARGUMENT,
                         "mavcg: option threads of the provider is not a number from 0 to %d", MOST_THREADS);
    if (!failed) failed = read_option(factory, options, "quiet", text, &given);
    if (failed || !given) return failed;
    own->quiet = !strcmp(text, "1");
    return own->quiet || !strcmp(text, "0") ? NULL
                                            : ort_error(&factory->api->base, ORT_INVALID_ARGUMENT,
                                                        "mavcg: option quiet of the provider is neither 0 nor 1");
}

static ort_status *create_provider(struct ort_factory *factory, const ort_device *const *devices,
                                   const ort_pairs *const *metadata, size_t count, const ort_session_options *options,
                                   const ort_logger *logger, struct ort_provider **provider) {
    struct own_provider *own = calloc(1, sizeof *own);
    (void)devices;
    (void)metadata;
    (void)count;
    (void)logger;
    *provider = NULL;
    if (!own) return ort_error(&factory_of(factory)->api->base, ORT_FAIL, "mavcg: no memory for a provider");
    own->base = (struct ort_provider){ORT_PROVIDER_VERSION, provider_name, get_capability, compile, release_infos, {0}};
    own->factory = factory_of(factory);
    ort_status *failed = read_provider_options(own, options);
    if (failed) free(own);
    else *provider = &own->base;
    return failed;
}

static void release_provider(struct ort_factory *factory, struct ort_provider *provider) {
    (void)factory;
    free(provider);
}

/* Answer OrtCompiledModelCompatibility_EP_NOT_APPLICABLE: this provider has no compiled models. */
static ort_status *check_compiled(struct ort_factory *factory, const ort_device *const *devices, size_t count,
                                  const char *text, int *compatibility) {
    (void)factory;
    (void)devices;
    (void)count;
    (void)text;
    *compatibility = 0;
    return NULL;
}
static ort_status *no_allocator(struct ort_factory *factory, const void *memory, const ort_pairs *options,
                                void **allocator) {
    (void)factory;
    (void)memory;
    (void)options;
    *allocator = NULL; /* NULL: the CPU's allocator */
    return NULL;
}
static void release_allocator(struct ort_factory *factory, void *allocator) {
    (void)factory;
    (void)allocator;
}
static ort_status *no_transfer(struct ort_factory *factory, void **transfer) {
    (void)factory;
    *transfer = NULL;
    return NULL;
}
static bool has_no_streams(const struct ort_factory *factory) {
    (void)factory;
    return false;
}

static const struct ort_factory part_factory = {
    .version = ORT_PROVIDER_VERSION,
    .get_name = factory_name,
    .get_vendor = factory_vendor,
    .get_devices = get_devices,
    .create = create_provider,
    .release = release_provider,
    .get_vendor_id = vendor_id,
    .get_version = factory_version,
    .check_compiled = check_compiled,
    .create_allocator = no_allocator,
    .release_allocator = release_allocator,
    .create_transfer = no_transfer,
    .has_streams = has_no_streams,
    .create_stream = no_allocator, /* returns NULL as well: no stream */
};

/* The entry points that ONNX Runtime calls. */
__attribute__((visibility("default"))) ort_status *CreateEpFactories(const char *name, const struct ort_api_base *base,
                                                                     const ort_logger *logger,
                                                                     struct ort_factory **factories, size_t most,
                                                                     size_t *count);
ort_status *CreateEpFactories(const char *name, const struct ort_api_base *base, const ort_logger *logger,
                              struct ort_factory **factories, size_t most, size_t *count) {
    const struct ort_graph_api *api = (const struct ort_graph_api *)base->get_api(ORT_PROVIDER_VERSION);
    (void)logger;
    *count = 0;
    if (!api) {
        const struct ort_api *older = base->get_api(ORT_API_VERSION);
        return older ? ort_error(older, ORT_FAIL,
                                 "mavcg: " LIBRARY_NAME " as a provider needs ONNX Runtime 1.23 or later; this is %s",
                                 base->get_version_string())
                     : NULL;
    }
    if (MODEL_FILES == 0) return ort_error(&api->base, ORT_FAIL, "mavcg: " LIBRARY_NAME " was built of no ONNX model");
    if (!most || !*name || strlen(name) >= NAME_BYTES)
        return ort_error(&api->base, ORT_INVALID_ARGUMENT, "mavcg: a provider's name has 1 to %d bytes",
                         NAME_BYTES - 1);
    struct own_factory *made = calloc(1, sizeof *made);
    if (!made) return ort_error(&api->base, ORT_FAIL, "mavcg: no memory to register " LIBRARY_NAME);
    made->base = part_factory;
    made->api = api;
    for (size_t i = 0; name[i]; i++) {
        made->name[i] = name[i];
        made->option_name[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
    }
    factories[0] = &made->base;
    *count = 1;
    return NULL;
}

__attribute__((visibility("default"))) ort_status *ReleaseEpFactory(struct ort_factory *factory);
ort_status *ReleaseEpFactory(struct ort_factory *factory) {
    free(factory);
    return NULL;
}
