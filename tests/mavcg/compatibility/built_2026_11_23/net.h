/* Model net. Made by mavcg.
 *
 * Inputs, in this order:
 *     0  x: f32[1,3,6,6], 432 bytes
 * Outputs, in this order:
 *     0  y: f32[1,4,6,6], 576 bytes
 */
#ifndef MAVCG_MODEL_NET_H
#define MAVCG_MODEL_NET_H

/* Declarations that all model libraries share: status codes, and the descriptions of tensors and steps. */
#ifndef MAVCG_MODEL_API
#define MAVCG_MODEL_API 1

#include <stddef.h>
#include <stdint.h>

/* The result of a call: 0 on success, positive when the call could not be done now, negative for a fault. */
enum mavcg_status {
    MAVCG_OK = 0,
    MAVCG_CANCELLED = 1,        /* another thread cancelled the run; the outputs are undefined */
    MAVCG_BUSY = 2,             /* the context, or a network that shares its memory, is in a run; nothing was done */
    MAVCG_ERROR_NULL = -1,      /* a pointer that must be there is NULL */
    MAVCG_ERROR_SIZE = -2,      /* an input or output does not have the size that the model needs */
    MAVCG_ERROR_ALIGNMENT = -3, /* an input or output does not lie at a multiple of its element size */
    MAVCG_ERROR_OVERLAP = -4,   /* an output shares memory with an input or with another output */
    MAVCG_ERROR_OPTION = -5,    /* threads out of range, an unknown flag, or a reserved field that is not 0 */
    MAVCG_ERROR_MEMORY = -6,    /* the system has no memory for the context */
    MAVCG_ERROR_THREADS = -7,   /* the system does not let the context start its threads */
    MAVCG_ERROR_CPU = -8        /* the processor lacks instructions that every version needs (x86: AVX2, FMA) */
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

/* An input or output: dense, row-major. */
typedef struct mavcg_tensor {
    const char *name;
    int32_t type; /* enum mavcg_type */
    int32_t rank;
    const int64_t *dims; /* [rank] */
    size_t bytes;
} mavcg_tensor;

/* One kernel's call within a run. */
typedef struct mavcg_step {
    const char *name;   /* the node in the model's file */
    const char *op;     /* its operator */
    const char *kernel; /* the function that computes it, without the version */
    int64_t rows;       /* its work is counted in rows */
    int64_t grain;      /* minimum chunk: rows that a thread takes at least at a time */
    int64_t work;       /* elementary operations, approximately */
} mavcg_step;

enum mavcg_flags {
    MAVCG_PIN = 1 /* tie each thread of the context to one CPU (never the caller's) */
};

/* All zero means the defaults. */
typedef struct mavcg_options {
    /* Threads that take part in a run, the caller's included; 0: the library chooses, by the core types that the process
     * may use and what was predicted for them, or takes one per CPU. */
    int32_t threads;
    uint32_t flags; /* of enum mavcg_flags */
    uint64_t reserved[2];
} mavcg_options;

/* The functions and tables of a model library, for programs that load any model library: its exported function
 * mavcg_model_api() returns them. Functions take the pointer that create stored; the functions with the model's name
 * describe them. Python's declarations are made of this file (runtime/declare.py). */
typedef struct mavcg_model_table {
    uint32_t api; /* MAVCG_MODEL_API */
    uint32_t input_count, output_count, step_count;
    const char *name;
    const mavcg_tensor *inputs, *outputs;
    const mavcg_step *steps;
    uint64_t arena_bytes, scratch_bytes, constants_bytes; /* of a context, of each of its threads, of the library */
    int (*create)(const mavcg_options *options, void **context);
    void (*destroy)(void *context);
    int (*run)(void *context, const void *const *inputs, void *const *outputs);
    int (*run_sized)(void *context, const void *const *inputs, const size_t *input_bytes, void *const *outputs,
                     const size_t *output_bytes);
    int (*profile)(void *context, const void *const *inputs, void *const *outputs, double *step_ns);
    int (*cancel)(void *context);
    int (*threads)(const void *context);
    const char *(*error_text)(int status);
} mavcg_model_table;

#ifdef __cplusplus
extern "C" {
#endif
const mavcg_model_table *mavcg_model_api(void);
#ifdef __cplusplus
}
#endif

#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The functions are exported as mavcg_model_net_create and so on, under names that no other library has. The comments
 * below call them net_create and so on: short names of the same functions, which the end of this header defines. */

typedef struct net_context net_context;
typedef mavcg_options net_options;

/* Every function that returns int returns an enum mavcg_status. */

/* Create a context: all memory that runs need. options: NULL for one thread. Several contexts may be used by several
 * threads at once. MAVCG_ERROR_NULL, _OPTION, _CPU or _MEMORY; *context is then NULL. */
int mavcg_model_net_create(const net_options *options, net_context **context);

/* Stop its threads and free it. No run of it may be active. NULL is fine. */
void mavcg_model_net_destroy(net_context *context);

/* Compute the outputs. inputs, outputs: one pointer each, in the order of net_inputs() and net_outputs(), to
 * dense row-major arrays; no output shares memory with another array. From any thread; a second run of one context at
 * the same time returns MAVCG_BUSY. Nothing is allocated, but the first run in a process starts the context's threads
 * (MAVCG_ERROR_THREADS). The calling thread's rounding and denormal modes hold on all threads. */
int mavcg_model_net_run(net_context *context, const void *const *inputs, void *const *outputs);

/* As net_run; first the sizes that the caller expects, in bytes, are compared with the model's (MAVCG_ERROR_SIZE).
 * */
int mavcg_model_net_run_sized(net_context *context, const void *const *inputs, const size_t *input_bytes,
    void *const *outputs, const size_t *output_bytes);

/* As net_run; step_ns gets the nanoseconds of each step of net_steps(). */
int mavcg_model_net_profile(net_context *context, const void *const *inputs, void *const *outputs, double *step_ns);

/* Called from another thread: end the active run before its next step, with MAVCG_CANCELLED. Without an active run it
 * has no effect, on later runs neither. */
int mavcg_model_net_cancel(net_context *context);

/* The number of threads that take part in its runs, the caller's included: at most as many as ever have work. */
int mavcg_model_net_threads(const net_context *context);

/* Descriptions; count may be NULL. */
const mavcg_tensor *mavcg_model_net_inputs(size_t *count);
const mavcg_tensor *mavcg_model_net_outputs(size_t *count);
const mavcg_step *mavcg_model_net_steps(size_t *count);

/* A status as static text. */
const char *mavcg_model_net_error_text(int status);

/* Where one of these names means something else in your program (sem_destroy of <semaphore.h>), define
 * MAVCG_NO_SHORT_NAMES before this header is included and use the exported names. */
#ifndef MAVCG_NO_SHORT_NAMES
#define net_create mavcg_model_net_create
#define net_destroy mavcg_model_net_destroy
#define net_run mavcg_model_net_run
#define net_run_sized mavcg_model_net_run_sized
#define net_profile mavcg_model_net_profile
#define net_cancel mavcg_model_net_cancel
#define net_threads mavcg_model_net_threads
#define net_inputs mavcg_model_net_inputs
#define net_outputs mavcg_model_net_outputs
#define net_steps mavcg_model_net_steps
#define net_error_text mavcg_model_net_error_text
#endif

#ifdef __cplusplus
}
#endif

#endif
