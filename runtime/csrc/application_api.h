/* Declarations of the libraries of applications: several networks in one memory. */
#ifndef MAVCG_APP_API
#define MAVCG_APP_API 2

#include <stdint.h>

#include "engine_api.h"

/* A status of push and pop beside those of enum mavcg_status. */
enum mavcg_pipeline_status {
    MAVCG_AGAIN = 3 /* the pipeline is full, or has completed no frame, and the time is up; nothing was done */
};

/* The CPUs of a pipeline's stage, in place of those that the library chooses. */
typedef struct mavcg_stage_place {
    uint32_t network, stage; /* numbers */
    int32_t threads;         /* 0: one for each of the CPUs */
    uint32_t cpu_count;      /* 0: the stage may run on any CPU */
    const uint16_t *cpus;    /* [cpu_count] numbers of CPUs */
    uint64_t reserved;
} mavcg_stage_place;

/* A network's buffers in the memory of its application. */
typedef struct mavcg_app_network {
    const mavcg_model_table *model;
    uint64_t arena_offset; /* in bytes */
    /* The networks that share memory with it, itself included, a bit for each number: one runs at a time. */
    uint32_t conflicts_with;
    uint32_t stage_count; /* of its pipeline; 0: it has none */
} mavcg_app_network;

/* The functions and tables of an application's library, for programs that load any: its exported function
 * mavcg_app_api() returns them. */
typedef struct mavcg_app_table {
    uint32_t api; /* MAVCG_APP_API */
    uint32_t network_count;
    const char *name;
    const mavcg_app_network *networks;
    /* Of the application's memory: buffers, and scratch for each thread of a network. */
    uint64_t arena_bytes, scratch_bytes;
    int (*create)(const mavcg_options *options, void **application);
    void (*destroy)(void *application);
    void *(*context)(void *application, uint32_t network);
    int (*create_placed)(const mavcg_options *options, const mavcg_stage_place *places, uint32_t place_count,
                         void **application);
    int (*push)(void *application, uint32_t network, const void *const *inputs, void *const *outputs, void *frame,
                int32_t timeout_ms);
    int (*pop)(void *application, uint32_t network, void **frame, int32_t timeout_ms);
    int (*cancel_frames)(void *application, uint32_t network);
    int (*stage_threads)(void *application, uint32_t network, uint32_t stage);
} mavcg_app_table;

#ifdef __cplusplus
extern "C" {
#endif
const mavcg_app_table *mavcg_app_api(void);
#ifdef __cplusplus
}
#endif

#endif
