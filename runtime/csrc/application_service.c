/* Runs a service on the monotonic clock. */
#include "application_service.h"

#include <stdlib.h>
#include <time.h>

#include "service.h"

enum { SERVING = 1, STOPPING = 2 };
/* A thread that sleeps wakes up some time after it was to: it is woken earlier than a release, and polls the clock. */
static const uint64_t WAKE_EARLY_NS = 100000, LONGEST_SLEEP_NS = 50000000, SECOND_NS = 1000000000;

struct service_data {
    const struct served_application *application;
    const mavcg_service *service;
};

static uint64_t clock_now(void *data) {
    (void)data;
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SECOND_NS + (uint64_t)time.tv_nsec;
}

static void clock_sleep(void *data, uint64_t ns) {
    uint64_t now = clock_now(data);
    if (ns <= now + WAKE_EARLY_NS) {
        while (clock_now(data) < ns) continue;
        return;
    }
    uint64_t end = ns - WAKE_EARLY_NS;
    if (end > now + LONGEST_SLEEP_NS) end = now + LONGEST_SLEEP_NS; /* to see a stop */
    struct timespec time = {.tv_sec = (time_t)(end / SECOND_NS), .tv_nsec = (long)(end % SECOND_NS)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static bool is_stopping(void *data) {
    const struct service_data *own = data;
    return __atomic_load_n(own->application->state, __ATOMIC_RELAXED) & STOPPING;
}

static void at_boundary(void *run) { service_boundary(run); }

static int run_network(void *data, uint32_t index, struct service_run *run) {
    const struct service_data *own = data;
    const mavcg_periodic *periodic = &own->service->networks[index];
    const struct served_application *application = own->application;
    void *context = application->contexts[periodic->network];
    application->functions[periodic->network]->set_boundary(context, at_boundary, run);
    int status = application->placed[periodic->network].model->run(context, periodic->inputs, periodic->outputs);
    application->functions[periodic->network]->set_boundary(context, NULL, NULL);
    return status;
}

/* Return true if a network may preempt another in whose memory its buffers lie. */
static bool preempts_in_its_memory(const struct served_application *application, const mavcg_service *service) {
    for (uint32_t i = 0; i < service->count; i++)
        for (uint32_t j = 0; j < service->count; j++) {
            const mavcg_periodic *below = &service->networks[i], *above = &service->networks[j];
            if (below->network >= application->count || above->network >= application->count) continue;
            if (!below->preemptible || above->priority <= below->priority) continue;
            if (application->placed[below->network].conflicts_with >> above->network & 1) return true;
        }
    return false;
}

MAVCG_PRIVATE int serve_application(const struct served_application *application, mavcg_service *service,
                                    const mavcg_accelerated *accelerated, uint32_t accelerated_count) {
    const struct service_networks networks = {application->count, accelerated_count, accelerated};
    int status = check_service(service, &networks);
    if (!status && preempts_in_its_memory(application, service)) status = MAVCG_ERROR_OPTION;
    if (status) return status;
    struct service_state *states = calloc(service->count, sizeof *states);
    struct accelerated_job *slots = calloc(accelerated_slots(service, &networks) + 1, sizeof *slots);
    uint32_t idle = 0;
    if (!states || !slots) status = MAVCG_ERROR_MEMORY;
    else if (!__atomic_compare_exchange_n(application->state, &idle, SERVING, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        status = MAVCG_BUSY;
    else {
        struct service_data data = {application, service};
        const struct service_host host = {&data, clock_now, clock_sleep, is_stopping, run_network};
        status = run_service(service, &networks, &host, states, slots);
        __atomic_store_n(application->state, 0, __ATOMIC_RELEASE);
    }
    free(slots);
    free(states);
    return status;
}

MAVCG_PRIVATE void stop_application_service(uint32_t *state) {
    uint32_t active = SERVING;
    __atomic_compare_exchange_n(state, &active, SERVING | STOPPING, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
