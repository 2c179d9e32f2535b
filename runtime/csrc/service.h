/* Scheduler of periodic jobs under fixed priorities: a job is preempted between its sections, by a call on top of it. */
#ifndef MAVCG_SERVICE_H
#define MAVCG_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "application_api.h"
#include "internal.h"

struct service_run;

/* What a scheduler runs on. data: first argument of all functions. */
struct service_host {
    void *data;
    uint64_t (*now)(void *data);                  /* in ns */
    void (*sleep_until)(void *data, uint64_t ns); /* may return earlier */
    bool (*stopping)(void *data);                 /* begin no further job */
    /* Run a job of the network at this index of the service, and call service_boundary(run) between its sections.
     * Returns a status. */
    int (*run)(void *data, uint32_t index, struct service_run *run);
};

enum accelerated_state {
    NO_JOB,    /* a free slot */
    WAITING,   /* since since_ns, for the accelerator */
    COMPUTING, /* being computed by the accelerator, until end_ns */
    READY      /* since since_ns, for the next part */
};

/* A job under way of a network with segments on an accelerator; times since the service began. */
struct accelerated_job {
    mavcg_job job;
    enum accelerated_state state;
    uint32_t part; /* the next */
    uint64_t segment_ns, since_ns, end_ns;
};

/* A network's jobs: the next one that is not begun, and those under way on an accelerator. */
struct service_state {
    uint64_t number, release_ns;          /* since the service began */
    const mavcg_accelerated *accelerated; /* NULL: a network of the library */
    struct accelerated_job *slots;        /* [accelerated->slots] */
    uint64_t free_ns;                     /* when its accelerator ended its last segment */
};

struct service_run {
    mavcg_service *service;
    const struct service_host *host;
    uint64_t origin_ns;           /* when the service began, on the host's clock */
    uint64_t section_ns;          /* when the current section began, since then */
    const mavcg_periodic *active; /* the network whose job is running; NULL: none */
    mavcg_job *job;               /* its job */
    bool stopped;                 /* by on_job */
    uint64_t left_out_ns;         /* of the host's clock since then */
    struct service_state *states; /* [service->count] */
};

/* The networks of a service: those of an application, numbered from 0, and then those with segments on accelerators. */
struct service_networks {
    uint32_t count;
    uint32_t accelerated_count;
    const mavcg_accelerated *accelerated; /* [accelerated_count] */
};

/* Check a service for these networks. Returns a status. */
MAVCG_PRIVATE int check_service(const mavcg_service *service, const struct service_networks *networks);

/* Return the jobs that may be under way on accelerators at a time, of a service that was checked. */
MAVCG_PRIVATE uint64_t accelerated_slots(const mavcg_service *service, const struct service_networks *networks);

/* Run all jobs that are released within service->duration_ns. states, slots: memory for service->count and
 * accelerated_slots of them. Returns the first status of a job that was neither run to its end nor skipped, or
 * MAVCG_OK. */
MAVCG_PRIVATE int run_service(mavcg_service *service, const struct service_networks *networks,
                              const struct service_host *host, struct service_state *states,
                              struct accelerated_job *slots);

/* Run the jobs that are more urgent than the running one. */
MAVCG_PRIVATE void service_boundary(struct service_run *run);

/* Let the accelerators begin and end segments up to this time: each takes the most urgent job that waits. */
MAVCG_PRIVATE void advance_accelerators(struct service_run *run, uint64_t now);

/* Return when the next segment ends; UINT64_MAX: none is computed. */
MAVCG_PRIVATE uint64_t next_segment_end(const struct service_run *run);

/* Return a network's oldest job in a state; NULL: none is. */
MAVCG_PRIVATE struct accelerated_job *job_in_state(const struct service_state *state, enum accelerated_state which);

#endif
