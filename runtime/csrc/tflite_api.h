/* The part of TensorFlow Lite's C structures that a delegate reads and fills, as in runtimes since 2.5 and in LiteRT.
 * These are only declarations: the build needs no header and no library of TensorFlow.
 *
 * Source: order and types of fields as in tflite/core/c/common.h of LiteRT and tensorflow/lite/core/c/common.h of
 * TensorFlow (Apache 2.0 licence); the delegate's entry points as in delegates/external/external_delegate.h. */
#ifndef MAVCG_TFLITE_API_H
#define MAVCG_TFLITE_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tflite_status { TFLITE_OK = 0, TFLITE_ERROR = 1 };
enum { TFLITE_MMAP_RO = 1 /* allocation type of a constant in the file */ };

typedef struct tflite_ints {
    int size;
    int data[];
} tflite_ints;

struct tflite_context;
struct tflite_delegate;

typedef struct tflite_tensor {
    int type; /* TfLiteType */
    void *data;
    tflite_ints *dims;
    struct {
        float scale;
        int32_t zero_point;
    } params;
    int allocation_type;
    size_t bytes;
    const void *allocation;
    const char *name;
    struct tflite_delegate *delegate;
    int buffer_handle;
    bool data_is_stale, is_variable;
    struct {
        int type;
        void *params;
    } quantization;
    void *sparsity;
    const tflite_ints *dims_signature;
} tflite_tensor;

typedef struct tflite_node {
    tflite_ints *inputs, *outputs, *intermediates, *temporaries;
    void *user_data; /* the value that init returned */
    /* The real structure has more fields. */
} tflite_node;

typedef struct tflite_registration {
    void *(*init)(struct tflite_context *context, const char *buffer, size_t length);
    void (*free)(struct tflite_context *context, void *state);
    int (*prepare)(struct tflite_context *context, tflite_node *node);
    int (*invoke)(struct tflite_context *context, tflite_node *node);
    const char *(*profiling_string)(const struct tflite_context *context, const tflite_node *node);
    int32_t builtin_code;
    const char *custom_name;
    int version;
    void *registration_external;
    void *(*async_kernel)(struct tflite_context *context, tflite_node *node);
    uint64_t inplace_operator;
} tflite_registration;

/* The buffer that a delegate kernel's init receives. */
typedef struct tflite_delegate_params {
    struct tflite_delegate *delegate;
    tflite_ints *nodes_to_replace, *input_tensors, *output_tensors;
} tflite_delegate_params;

typedef struct tflite_context {
    size_t tensors_size;
    int (*get_execution_plan)(struct tflite_context *context, tflite_ints **plan);
    tflite_tensor *tensors;
    void *impl;
    int (*resize_tensor)(struct tflite_context *context, tflite_tensor *tensor, tflite_ints *size);
    void (*report_error)(struct tflite_context *context, const char *format, ...);
    int (*add_tensors)(struct tflite_context *context, int count, int *first);
    int (*get_node_and_registration)(struct tflite_context *context, int index, tflite_node **node,
                                     tflite_registration **registration);
    int (*replace_node_subsets_with_delegate_kernels)(struct tflite_context *context, tflite_registration registration,
                                                      const tflite_ints *nodes, struct tflite_delegate *delegate);
    int recommended_num_threads;
    void *(*get_external_context)(struct tflite_context *context, int type);
    void (*set_external_context)(struct tflite_context *context, int type, void *external);
    bool allow_fp32_relax_to_fp16;
    void *profiler;
    void *(*allocate_persistent_buffer)(struct tflite_context *context, size_t bytes);
    int (*allocate_buffer_for_eval)(struct tflite_context *context, size_t bytes, void **buffer);
    int (*request_scratch_buffer)(struct tflite_context *context, size_t bytes, int *index);
    void *(*get_scratch_buffer)(struct tflite_context *context, int index);
    int (*resize_tensor_explicit)(struct tflite_context *context, tflite_tensor *tensor, int rank, const int *shape);
    int (*preview_delegate_partitioning)(struct tflite_context *context, const tflite_ints *nodes,
                                         tflite_delegate_params **partitions, int *count);
    /* The real structure has more functions. */
} tflite_context;

typedef struct tflite_delegate {
    void *data;
    int (*prepare)(tflite_context *context, struct tflite_delegate *delegate);
    int (*copy_from_buffer_handle)(tflite_context *context, struct tflite_delegate *delegate, int handle,
                                   tflite_tensor *tensor);
    int (*copy_to_buffer_handle)(tflite_context *context, struct tflite_delegate *delegate, int handle,
                                 tflite_tensor *tensor);
    void (*free_buffer_handle)(tflite_context *context, struct tflite_delegate *delegate, int *handle);
    int64_t flags;
    void *opaque_delegate_builder;
} tflite_delegate;

#endif
