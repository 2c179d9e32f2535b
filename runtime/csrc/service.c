/* Schedules periodic jobs under fixed priorities. */
#include "service.h"

#include <string.h>

MAVCG_PRIVATE int check_service(const mavcg_service *service, uint32_t networks) {
    if (!service || !service->networks || (service->job_capacity && !service->jobs)) return MAVCG_ERROR_NULL;
    if (!service->count || service->count > networks || service->reserved) return MAVCG_ERROR_OPTION;
    for (uint32_t i = 0; i < service->count; i++) {
        const mavcg_periodic *own = &service->networks[i];
        if (own->network >= networks || !own->period_ns || !own->deadline_ns || own->reserved || own->preemptible > 1 ||
            own->priority < 0)
            return MAVCG_ERROR_OPTION;
        for (uint32_t other = 0; other < i; other++)
            if (service->networks[other].network == own->network || service->networks[other].priority == own->priority)
                return MAVCG_ERROR_OPTION;
    }
    return MAVCG_OK;
}

static uint64_t service_now(const struct service_run *run) { return run->host->now(run->host->data) - run->origin_ns; }

static bool ended(const struct service_run *run) { return run->stopped || run->host->stopping(run->host->data); }

/* Report a job to the program; later jobs do not begin if it says so. */
static void tell(struct service_run *run, const mavcg_job *job) {
    const mavcg_service *service = run->service;
    if (service->on_job && service->on_job(service->data, job)) run->stopped = true;
}

static void record(struct service_run *run, const mavcg_job *job) {
    mavcg_service *service = run->service;
    if (service->job_count < service->job_capacity) service->jobs[service->job_count] = *job;
    service->job_count++;
}

/* Return the index of the most urgent network with a released job and a priority above this one; count: none. */
static uint32_t most_urgent(const struct service_run *run, int64_t above, uint64_t now) {
    const mavcg_service *service = run->service;
    uint32_t best = service->count;
    for (uint32_t i = 0; i < service->count; i++) {
        uint64_t release = run->states[i].release_ns;
        if (release > now || release >= service->duration_ns || service->networks[i].priority <= above) continue;
        best = i;
        above = service->networks[i].priority;
    }
    return best;
}

static void end_section(mavcg_job *job, uint64_t begin, uint64_t end) {
    if (end - begin > job->longest_section_ns) job->longest_section_ns = end - begin;
}

/* Run one job, or skip it if its deadline has passed. Returns a status of run. */
static int run_job(struct service_run *run, uint32_t index, uint64_t now) {
    const mavcg_periodic *own = &run->service->networks[index];
    struct service_state *state = &run->states[index];
    mavcg_job job = {.network = own->network, .number = state->number, .release_ns = state->release_ns};
    state->number++;
    state->release_ns += own->period_ns;
    if (job.release_ns + own->deadline_ns <= now) {
        job.status = MAVCG_SKIPPED;
        record(run, &job);
        tell(run, &job);
        return MAVCG_OK;
    }
    const mavcg_periodic *below = run->active;
    mavcg_job *below_job = run->job;
    run->active = own;
    run->job = &job;
    tell(run, &job);
    job.begin_ns = run->section_ns = now;
    job.status = run->host->run(run->host->data, index, run);
    job.end_ns = service_now(run);
    end_section(&job, run->section_ns, job.end_ns);
    run->active = below;
    run->job = below_job;
    record(run, &job);
    tell(run, &job);
    return job.status;
}

/* Run released jobs above a priority until there are none. Returns the first status that is not MAVCG_OK. */
static int run_released(struct service_run *run, int64_t above) {
    int first = MAVCG_OK;
    while (!ended(run)) {
        uint64_t now = service_now(run);
        uint32_t index = most_urgent(run, above, now);
        if (index == run->service->count) break;
        int status = run_job(run, index, now);
        if (status && !first) first = status;
        if (status) run->stopped = true;
    }
    return first;
}

MAVCG_PRIVATE void service_boundary(struct service_run *run) {
    uint64_t now = service_now(run);
    end_section(run->job, run->section_ns, now);
    run->section_ns = now;
    if (!run->active->preemptible || most_urgent(run, run->active->priority, now) == run->service->count) return;
    run->job->preemptions++;
    run_released(run, run->active->priority);
    run->section_ns = service_now(run);
}

/* Return when the next job is released; UINT64_MAX: none is. */
static uint64_t next_release(const struct service_run *run) {
    uint64_t next = UINT64_MAX;
    for (uint32_t i = 0; i < run->service->count; i++) {
        uint64_t release = run->states[i].release_ns;
        if (release < run->service->duration_ns && release < next) next = release;
    }
    return next;
}

MAVCG_PRIVATE int run_service(mavcg_service *service, const struct service_host *host, struct service_state *states) {
    struct service_run run = {.service = service, .host = host, .origin_ns = host->now(host->data), .states = states};
    memset(states, 0, service->count * sizeof *states);
    service->job_count = 0;
    int first = MAVCG_OK;
    for (;;) {
        int status = run_released(&run, -1);
        if (status && !first) first = status;
        uint64_t next = next_release(&run);
        if (next == UINT64_MAX || ended(&run)) return first;
        host->sleep_until(host->data, run.origin_ns + next);
    }
}
