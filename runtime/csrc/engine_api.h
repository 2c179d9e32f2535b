/* Declarations that all model libraries share: status codes, and the descriptions of tensors and steps. */
#ifndef MAVCG_MODEL_API
#define MAVCG_MODEL_API 5

#include <stddef.h>
#include <stdint.h>

/* The result of a call: 0 on success, positive if the call cannot be done now, negative for an error. */
enum mavcg_status {
    MAVCG_OK = 0,
    MAVCG_CANCELLED = 1,        /* another thread cancelled the run; the outputs are undefined */
    MAVCG_BUSY = 2,             /* the context, or a network that shares its memory, is running; nothing was done */
    MAVCG_ERROR_NULL = -1,      /* a required pointer is NULL */
    MAVCG_ERROR_SIZE = -2,      /* an input or output does not have the size that the model requires */
    MAVCG_ERROR_ALIGNMENT = -3, /* the address of an input or output is not a multiple of its element size */
    MAVCG_ERROR_OVERLAP = -4,   /* an output shares memory with an input or another output */
    MAVCG_ERROR_OPTION = -5,    /* threads out of range, an unknown flag, or a reserved field that is not 0 */
    MAVCG_ERROR_MEMORY = -6,    /* the system has no memory for the context */
    MAVCG_ERROR_THREADS = -7,   /* the system does not let the context start its threads */
    MAVCG_ERROR_CPU = -8,       /* the processor lacks instructions that every version needs: AVX2, FMA, of f16 */
    MAVCG_ERROR_INDEX = -9,     /* the run read or computed an index out of range; the outputs are undefined */
    MAVCG_ERROR_STATE = -10     /* a run that did not end left the states undefined, or these are another model's */
};

/* Element types. */
enum mavcg_type {
    MAVCG_F32 = 1,
    MAVCG_F16 = 2,
    MAVCG_F64 = 3,
    MAVCG_I8 = 4,
    MAVCG_U8 = 5,
    MAVCG_I16 = 6,
    MAVCG_U16 = 7,
    MAVCG_I32 = 8,
    MAVCG_U32 = 9,
    MAVCG_I64 = 10,
    MAVCG_U64 = 11,
    MAVCG_BOOL = 12
};

/* An input or output: a dense, row-major array. */
typedef struct mavcg_tensor {
    const char *name;
    int32_t type; /* enum mavcg_type */
    int32_t rank;
    const int64_t *dims; /* [rank] */
    size_t bytes;
} mavcg_tensor;

/* A bounded dimension of inputs and outputs: each run has a length of it, least to most; where lengths have a step
 * (dimension_steps below), a multiple of it. */
typedef struct mavcg_dimension {
    const char *name;
    int64_t least, most;
} mavcg_dimension;

/* An output of whose length along an axis each run decides: its description has the longest, for which the caller's
 * array has memory. After a run the array is dense with the length that context_outputs has. */
typedef struct mavcg_counted {
    uint32_t output;
    int32_t axis;
} mavcg_counted;

/* A step: one call of a kernel within a run. */
typedef struct mavcg_step {
    const char *name;   /* name of its node in the model's file */
    const char *op;     /* operator of the node */
    const char *kernel; /* name of the function that computes it, without the version's suffix */
    int64_t rows;       /* number of rows, the unit of its work; at the longest length */
    int64_t grain;      /* minimum chunk: the fewest rows that a thread takes at a time */
    int64_t work;       /* approximate number of elementary operations */
} mavcg_step;

enum mavcg_flags {
    MAVCG_PIN = 1 /* pin each thread of the context to one CPU (never the caller's thread) */
};

/* Options of create; all zero means the defaults. */
typedef struct mavcg_options {
    /* Number of threads in a run, the caller's included. 0: the library chooses, by the core types that the process may
     * use and by what was predicted for them; without a prediction it takes one thread per CPU. */
    int32_t threads;
    uint32_t flags; /* bit mask of enum mavcg_flags */
    uint64_t reserved[2];
} mavcg_options;

/* The functions and tables of a model library, for programs that load any model library: its exported function
 * mavcg_model_api() returns this table. The functions take the context that create stored; see the functions with the
 * model's name for their description. Python's declarations are generated from this file (runtime/declare.py). */
typedef struct mavcg_model_table {
    uint32_t api; /* MAVCG_MODEL_API */
    uint32_t input_count, output_count, step_count;
    const char *name;
    const mavcg_tensor *inputs, *outputs;
    const mavcg_step *steps;
    uint64_t arena_bytes, scratch_bytes, constants_bytes; /* per context, per thread of a context, and of the library */
    int (*create)(const mavcg_options *options, void **context);
    void (*destroy)(void *context);
    int (*run)(void *context, const void *const *inputs, void *const *outputs);
    int (*run_sized)(void *context, const void *const *inputs, const size_t *input_bytes, void *const *outputs,
                     const size_t *output_bytes);
    int (*profile)(void *context, const void *const *inputs, void *const *outputs, double *step_ns);
    int (*cancel)(void *context);
    int (*threads)(const void *context);
    const char *(*error_text)(int status);
    uint32_t state_count;
    const mavcg_tensor *states;
    uint64_t state_bytes; /* memory of a context's states */
    int (*reset)(void *context);
    size_t (*state_size)(const void *context);
    int (*state_save)(void *context, void *buffer, size_t bytes);
    int (*state_restore)(void *context, const void *buffer, size_t bytes);
    /* Of a model with bounded dimensions; 0 and NULL otherwise. inputs and outputs above have the longest lengths. */
    uint32_t dimension_count;
    const mavcg_dimension *dimensions;
    int (*set_shape)(void *context, const int64_t *const *dims);
    const mavcg_tensor *(*context_inputs)(const void *context);
    const mavcg_tensor *(*context_outputs)(const void *context);
    /* Of a model with such outputs; 0 and NULL otherwise. context_outputs then has the outputs of the last run. */
    uint32_t counted_count;
    const mavcg_counted *counted;
    /* For each bounded dimension the step of which its lengths are multiples: 1 for any. */
    const int64_t *dimension_steps;
} mavcg_model_table;

#ifdef __cplusplus
extern "C" {
#endif
const mavcg_model_table *mavcg_model_api(void);
#ifdef __cplusplus
}
#endif

#endif
