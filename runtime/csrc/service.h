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

/* A network's jobs: the next one that is not begun. */
struct service_state {
    uint64_t number, release_ns; /* since the service began */
};

struct service_run {
    mavcg_service *service;
    const struct service_host *host;
    uint64_t origin_ns;           /* when the service began, on the host's clock */
    uint64_t section_ns;          /* when the current section began, since then */
    const mavcg_periodic *active; /* the network whose job is running; NULL: none */
    mavcg_job *job;               /* its job */
    bool stopped;                 /* by on_job */
    struct service_state *states; /* [service->count] */
};

/* Check a service for an application of `networks` networks. Returns a status. */
MAVCG_PRIVATE int check_service(const mavcg_service *service, uint32_t networks);

/* Run all jobs that are released within service->duration_ns. states: memory for service->count of them. Returns the
 * first status of a job that was neither run to its end nor skipped, or MAVCG_OK. */
MAVCG_PRIVATE int run_service(mavcg_service *service, const struct service_host *host, struct service_state *states);

/* Run the jobs that are more urgent than the running one. */
MAVCG_PRIVATE void service_boundary(struct service_run *run);

#endif
