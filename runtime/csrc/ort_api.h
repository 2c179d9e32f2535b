/* The part of ONNX Runtime's C interface that a library of custom operators needs, version 16 (ONNX Runtime 1.16) and
 * later. These are only declarations: the build needs no header and no library of ONNX Runtime.
 *
 * Source: positions of functions in OrtApi, fields of OrtCustomOp and values of enumerations as in
 * include/onnxruntime/core/session/onnxruntime_c_api.h of ONNX Runtime (MIT licence), which promises to keep them. */
#ifndef MAVCG_ORT_API_H
#define MAVCG_ORT_API_H

#include <stddef.h>
#include <stdint.h>

enum { ORT_API_VERSION = 16 };
enum ort_error { ORT_FAIL = 1, ORT_INVALID_ARGUMENT = 2, ORT_RUNTIME_EXCEPTION = 6, ORT_INVALID_GRAPH = 10 };

typedef struct OrtStatus ort_status; /* NULL: no error */
typedef struct OrtValue ort_value;
typedef struct OrtTensorTypeAndShapeInfo ort_shape;
typedef struct OrtCustomOpDomain ort_domain;
typedef struct OrtSessionOptions ort_session_options;
typedef struct OrtKernelInfo ort_kernel_info;
typedef struct OrtKernelContext ort_kernel_context;
struct ort_custom_op;

/* The functions in the order of OrtApi, with their positions. Functions that are never called are covered by gaps,
 * named after the positions that they span. */
struct ort_api {
    ort_status *(*create_status)(int code, const char *message); /* 0 */
    void *from_1[25];
    ort_status *(*create_custom_op_domain)(const char *name, ort_domain **domain);           /* 26 */
    ort_status *(*custom_op_domain_add)(ort_domain *domain, const struct ort_custom_op *op); /* 27 */
    ort_status *(*add_custom_op_domain)(ort_session_options *options, ort_domain *domain);   /* 28 */
    void *from_29[22];
    ort_status *(*get_tensor_mutable_data)(ort_value *value, void **data); /* 51 */
    void *from_52[9];
    ort_status *(*get_dimensions_count)(const ort_shape *shape, size_t *rank);         /* 61 */
    ort_status *(*get_dimensions)(const ort_shape *shape, int64_t *dims, size_t rank); /* 62 */
    void *from_63[2];
    ort_status *(*get_tensor_type_and_shape)(const ort_value *value, ort_shape **shape); /* 65 */
    void *from_66[21];
    ort_status *(*kernel_info_get_attribute_string)(const ort_kernel_info *info, const char *name, char *text,
                                                    size_t *size);                                    /* 87 */
    ort_status *(*kernel_context_get_input_count)(const ort_kernel_context *context, size_t *count);  /* 88 */
    ort_status *(*kernel_context_get_output_count)(const ort_kernel_context *context, size_t *count); /* 89 */
    ort_status *(*kernel_context_get_input)(const ort_kernel_context *context, size_t index,
                                            const ort_value **value); /* 90 */
    ort_status *(*kernel_context_get_output)(ort_kernel_context *context, size_t index, const int64_t *dims,
                                             size_t rank, ort_value **value); /* 91 */
    void *from_92[1];
    void (*release_status)(ort_status *status); /* 93 */
    void *from_94[5];
    void (*release_tensor_type_and_shape_info)(ort_shape *shape); /* 99 */
    void *from_100[1];
    void (*release_custom_op_domain)(ort_domain *domain); /* 101 */
    void *from_102[135];
    ort_status *(*has_session_config_entry)(const ort_session_options *options, const char *key, int *there); /* 237 */
    ort_status *(*get_session_config_entry)(const ort_session_options *options, const char *key, char *value,
                                            size_t *size); /* 238 */
};

#define ORT_POSITION(function, number)                                                      \
    _Static_assert(offsetof(struct ort_api, function) == (number) * sizeof(void (*)(void)), \
                   #function " is function " #number " of OrtApi")
ORT_POSITION(add_custom_op_domain, 28);
ORT_POSITION(get_tensor_mutable_data, 51);
ORT_POSITION(get_dimensions, 62);
ORT_POSITION(get_tensor_type_and_shape, 65);
ORT_POSITION(kernel_context_get_output, 91);
ORT_POSITION(release_status, 93);
ORT_POSITION(release_tensor_type_and_shape_info, 99);
ORT_POSITION(release_custom_op_domain, 101);
ORT_POSITION(get_session_config_entry, 238);

/* get_api returns NULL for a version that the runtime does not have. */
struct ort_api_base {
    const struct ort_api *(*get_api)(uint32_t version);
    const char *(*get_version_string)(void);
};

/* OrtCustomOp as of version 16. */
struct ort_custom_op {
    uint32_t version;
    void *(*create_kernel)(const struct ort_custom_op *op, const struct ort_api *api, const ort_kernel_info *info);
    const char *(*get_name)(const struct ort_custom_op *op);
    const char *(*get_execution_provider_type)(const struct ort_custom_op *op);
    int (*get_input_type)(const struct ort_custom_op *op, size_t index);
    size_t (*get_input_type_count)(const struct ort_custom_op *op);
    int (*get_output_type)(const struct ort_custom_op *op, size_t index);
    size_t (*get_output_type_count)(const struct ort_custom_op *op);
    void (*kernel_compute)(void *kernel, ort_kernel_context *context);
    void (*kernel_destroy)(void *kernel);
    int (*get_input_characteristic)(const struct ort_custom_op *op, size_t index);
    int (*get_output_characteristic)(const struct ort_custom_op *op, size_t index);
    int (*get_input_memory_type)(const struct ort_custom_op *op, size_t index);
    int (*get_variadic_input_min_arity)(const struct ort_custom_op *op);
    int (*get_variadic_input_homogeneity)(const struct ort_custom_op *op);
    int (*get_variadic_output_min_arity)(const struct ort_custom_op *op);
    int (*get_variadic_output_homogeneity)(const struct ort_custom_op *op);
    ort_status *(*create_kernel_v2)(const struct ort_custom_op *op, const struct ort_api *api,
                                    const ort_kernel_info *info, void **kernel);
    ort_status *(*kernel_compute_v2)(void *kernel, ort_kernel_context *context);
};

#endif
