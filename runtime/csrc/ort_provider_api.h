/* The part of ONNX Runtime's C interface that a plug-in execution provider needs, version 23 (ONNX Runtime 1.23) and
 * later. These are only declarations.
 *
 * Source: positions of functions in OrtApi and OrtEpApi, fields of OrtEpFactory, OrtEp and OrtNodeComputeInfo as in
 * include/onnxruntime/core/session/onnxruntime_c_api.h and onnxruntime_ep_c_api.h of ONNX Runtime (MIT licence), which
 * promises to keep them and calls only the fields that exist in the version of ort_version_supported. */
#ifndef MAVCG_ORT_PROVIDER_API_H
#define MAVCG_ORT_PROVIDER_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ort_api.h"

enum { ORT_PROVIDER_VERSION = 23, ORT_DEVICE_CPU = 0 };

typedef struct OrtGraph ort_graph;
typedef struct OrtNode ort_node;
typedef struct OrtValueInfo ort_value_info;
typedef struct OrtHardwareDevice ort_device;
typedef struct OrtEpDevice ort_provider_device;
typedef struct OrtKeyValuePairs ort_pairs;
typedef struct OrtEpGraphSupportInfo ort_support;
typedef struct OrtNodeComputeContext ort_compute_context;
typedef struct OrtLogger ort_logger;
struct ort_provider;
struct ort_factory;

struct ort_fusion_options {
    uint32_t version;
    bool drop_constant_initializers; /* constant initializers are not inputs of the fused node */
};

/* Functions of OrtEpApi, with their positions. */
struct ort_provider_api {
    ort_status *(*create_device)(struct ort_factory *factory, const ort_device *device, const ort_pairs *metadata,
                                 const ort_pairs *options, ort_provider_device **made); /* 0 */
    void *from_1[1];
    ort_status *(*add_nodes_to_fuse)(ort_support *support, const ort_node *const *nodes, size_t count,
                                     const struct ort_fusion_options *options); /* 2 */
};

/* Functions of OrtApi after those of struct ort_api, since version 22, with their positions. */
struct ort_graph_api {
    struct ort_api base;
    void *from_239[50];
    ort_status *(*get_value_info_name)(const ort_value_info *value, const char **name); /* 289 */
    void *from_290[17];
    int (*device_type)(const ort_device *device); /* 307 */
    void *from_308[9];
    const struct ort_provider_api *(*get_provider_api)(void); /* 317 */
    void *from_318[12];
    ort_status *(*is_graph_output)(const ort_value_info *value, bool *is);         /* 330 */
    ort_status *(*is_constant_initializer)(const ort_value_info *value, bool *is); /* 331 */
    void *from_332[2];
    ort_status *(*graph_model_path)(const ort_graph *graph, const char **path); /* 334 */
    void *from_335[9];
    ort_status *(*graph_node_count)(const ort_graph *graph, size_t *count);                   /* 344 */
    ort_status *(*graph_nodes)(const ort_graph *graph, const ort_node **nodes, size_t count); /* 345 */
    ort_status *(*graph_parent_node)(const ort_graph *graph, const ort_node **node);          /* 346 */
    void *from_347[6];
    ort_status *(*node_input_count)(const ort_node *node, size_t *count);                            /* 353 */
    ort_status *(*node_inputs)(const ort_node *node, const ort_value_info **values, size_t count);   /* 354 */
    ort_status *(*node_output_count)(const ort_node *node, size_t *count);                           /* 355 */
    ort_status *(*node_outputs)(const ort_node *node, const ort_value_info **values, size_t count);  /* 356 */
    ort_status *(*node_implicit_count)(const ort_node *node, size_t *count);                         /* 357 */
    ort_status *(*node_implicit)(const ort_node *node, const ort_value_info **values, size_t count); /* 358 */
};

#define ORT_GRAPH_POSITION(function, number)                                                      \
    _Static_assert(offsetof(struct ort_graph_api, function) == (number) * sizeof(void (*)(void)), \
                   #function " is function " #number " of OrtApi")
ORT_GRAPH_POSITION(get_value_info_name, 289);
ORT_GRAPH_POSITION(device_type, 307);
ORT_GRAPH_POSITION(get_provider_api, 317);
ORT_GRAPH_POSITION(is_constant_initializer, 331);
ORT_GRAPH_POSITION(graph_model_path, 334);
ORT_GRAPH_POSITION(graph_parent_node, 346);
ORT_GRAPH_POSITION(node_implicit, 358);

/* OrtNodeComputeInfo: how a fused node computes. */
struct ort_compute_info {
    uint32_t version;
    ort_status *(*create_state)(struct ort_compute_info *info, ort_compute_context *context, void **state);
    ort_status *(*compute)(struct ort_compute_info *info, void *state, ort_kernel_context *context);
    void (*release_state)(struct ort_compute_info *info, void *state);
};

/* OrtEp as of version 23: the provider of one session. ONNX Runtime does without the functions that are NULL. */
struct ort_provider {
    uint32_t version;
    const char *(*get_name)(const struct ort_provider *provider);
    ort_status *(*get_capability)(struct ort_provider *provider, const ort_graph *graph, ort_support *support);
    ort_status *(*compile)(struct ort_provider *provider, const ort_graph **graphs, const ort_node **fused,
                           size_t count, struct ort_compute_info **infos, ort_node **context_nodes);
    void (*release_infos)(struct ort_provider *provider, struct ort_compute_info **infos, size_t count);
    void *optional[8]; /* layout, dynamic options, begin and end of runs, allocator, stream, compatibility */
};

/* OrtEpFactory as of version 23: creates providers. */
struct ort_factory {
    uint32_t version;
    const char *(*get_name)(const struct ort_factory *factory);
    const char *(*get_vendor)(const struct ort_factory *factory);
    ort_status *(*get_devices)(struct ort_factory *factory, const ort_device *const *devices, size_t count,
                               ort_provider_device **found, size_t most, size_t *found_count);
    ort_status *(*create)(struct ort_factory *factory, const ort_device *const *devices,
                          const ort_pairs *const *metadata, size_t count, const ort_session_options *options,
                          const ort_logger *logger, struct ort_provider **provider);
    void (*release)(struct ort_factory *factory, struct ort_provider *provider);
    uint32_t (*get_vendor_id)(const struct ort_factory *factory);
    const char *(*get_version)(const struct ort_factory *factory);
    ort_status *(*check_compiled)(struct ort_factory *factory, const ort_device *const *devices, size_t count,
                                  const char *text, int *compatibility);
    ort_status *(*create_allocator)(struct ort_factory *factory, const void *memory, const ort_pairs *options,
                                    void **allocator);
    void (*release_allocator)(struct ort_factory *factory, void *allocator);
    ort_status *(*create_transfer)(struct ort_factory *factory, void **transfer);
    bool (*has_streams)(const struct ort_factory *factory);
    ort_status *(*create_stream)(struct ort_factory *factory, const void *memory, const ort_pairs *options,
                                 void **stream);
};

#endif
