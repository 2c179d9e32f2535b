/* Declarations of an application's library: several networks in one memory block. */
#ifndef MAVCG_APP_API
#define MAVCG_APP_API 4

#include <stdint.h>

#include "engine_api.h"

/* The status that push and pop return beside those of enum mavcg_status. */
enum mavcg_pipeline_status {
    MAVCG_AGAIN = 3 /* timed out: the pipeline is full, or has completed no frame; nothing was done */
};

/* The CPUs of a pipeline's stage; they replace the library's choice. */
typedef struct mavcg_stage_place {
    uint32_t network, stage; /* numbers, from 0 */
    int32_t threads;         /* 0: one thread per CPU */
    uint32_t cpu_count;      /* 0: the stage may run on any CPU */
    const uint16_t *cpus;    /* [cpu_count] CPU numbers */
    uint64_t reserved;
} mavcg_stage_place;

/* A network of an application and its buffers in the application's memory. */
typedef struct mavcg_app_network {
    const mavcg_model_table *model;
    uint64_t arena_offset; /* of the network's arena, in bytes */
    /* Bit mask of network numbers: the networks that share memory with this one, itself included. Only one of them runs
     * at a time. */
    uint32_t conflicts_with;
    uint32_t stage_count; /* stages of its pipeline; 0: no pipeline */
} mavcg_app_network;

/* The status of a job beside those of enum mavcg_status. */
enum mavcg_job_status {
    MAVCG_SKIPPED = 4,            /* the job had not begun at its deadline, and was not run */
    MAVCG_ERROR_ACCELERATOR = -11 /* the accelerator stopped or did not answer; its host side has a text */
};

/* The jobs of a network: one is released in each period. Jobs of a network run in order. */
typedef struct mavcg_periodic {
    uint32_t network;                /* number, from 0 */
    int32_t priority;                /* from 0; the largest runs first, and each network has its own */
    uint64_t period_ns, deadline_ns; /* deadline: after the release */
    uint32_t preemptible;            /* 1: more urgent jobs run between two steps of a job; 0: after it */
    uint32_t reserved;
    const void *const *inputs; /* as for the network's run, of every job */
    void *const *outputs;
} mavcg_periodic;

/* A job of a network; times are in ns since the service began. */
typedef struct mavcg_job {
    uint32_t network;
    int32_t status; /* of the network's run, or MAVCG_SKIPPED */
    uint64_t number;
    uint64_t release_ns, begin_ns, end_ns; /* end_ns 0: it has not ended */
    uint64_t longest_section_ns;           /* longest time between two boundaries of steps, others' jobs left out */
    uint64_t preemptions;
} mavcg_job;

/* A service: networks that run as periodic jobs. */
typedef struct mavcg_service {
    const mavcg_periodic *networks;
    uint32_t count, reserved;
    uint64_t duration_ns; /* jobs that are released before are run */
    /* Called before each job begins, and when it has ended or was skipped; another value than 0 ends the service, after
     * the jobs that have begun. NULL: not called. */
    int (*on_job)(void *data, const mavcg_job *job);
    void *data;
    mavcg_job *jobs; /* [job_capacity] receives the first jobs, in the order of their ends */
    uint64_t job_capacity;
    uint64_t job_count; /* receives the number of jobs that ended or were skipped */
} mavcg_service;

/* A network that is served beside those of a library, and that an accelerator computes in segments: part 0 runs on this
 * processor before the first segment, part n after segment n. mavcg_accel_service.h makes one of a program of `mavcg
 * accel build`. An accelerator computes a segment at a time to its end, that of the largest priority first. */
typedef struct mavcg_accelerated {
    void *data;
    uint32_t accelerator; /* networks with the same number share an accelerator */
    uint32_t parts;       /* one more than segments, 2 or more */
    uint32_t slots;       /* jobs that may be under way at a time, each in a slot of its own; 1 or more */
    uint32_t reserved;
    /* Run a part of the job in a slot on this processor; part 0 reads the inputs, the last one writes the outputs.
     * segment_ns: how long the accelerator then computes the next segment; not read after the last part. left_out_ns:
     * of this call's time, what the service's clock leaves out, as for a simulation in place of a device. Returns
     * MAVCG_OK or a status, which ends the job. */
    int (*run_part)(void *data, uint32_t slot, uint32_t part, const void *const *inputs, void *const *outputs,
                    uint64_t *segment_ns, uint64_t *left_out_ns);
} mavcg_accelerated;

/* The functions and tables of an application's library, for programs that load any such library: its exported function
 * mavcg_app_api() returns this table. */
typedef struct mavcg_app_table {
    uint32_t api; /* MAVCG_APP_API */
    uint32_t network_count;
    const char *name;
    const mavcg_app_network *networks;
    /* Sizes of the application's memory: the buffers, and the scratch of all threads. */
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
    /* MAVCG_APP_API 3 and later */
    int (*serve)(void *application, mavcg_service *service);
    int (*stop_service)(void *application);
    /* MAVCG_APP_API 4 and later */
    int (*serve_accelerated)(void *application, mavcg_service *service, const mavcg_accelerated *accelerated,
                             uint32_t accelerated_count);
} mavcg_app_table;

#ifdef __cplusplus
extern "C" {
#endif
const mavcg_app_table *mavcg_app_api(void);
#ifdef __cplusplus
}
#endif

#endif
