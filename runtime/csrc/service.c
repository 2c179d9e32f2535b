/* Schedules periodic jobs under fixed priorities. */
#include "service.h"

#include <string.h>

static bool are_valid(const struct service_networks *networks) {
    for (uint32_t i = 0; i < networks->accelerated_count; i++) {
        const mavcg_accelerated *own = &networks->accelerated[i];
        if (!own->run_part || own->parts < 2 || !own->slots || own->reserved) return false;
    }
    return true;
}

MAVCG_PRIVATE int check_service(const mavcg_service *service, const struct service_networks *networks) {
    if (!service || !service->networks || (service->job_capacity && !service->jobs) ||
        (networks->accelerated_count && !networks->accelerated))
        return MAVCG_ERROR_NULL;
    if (networks->accelerated_count > UINT32_MAX - networks->count || !are_valid(networks)) return MAVCG_ERROR_OPTION;
    uint32_t all = networks->count + networks->accelerated_count;
    if (!service->count || service->count > all || service->reserved) return MAVCG_ERROR_OPTION;
    for (uint32_t i = 0; i < service->count; i++) {
        const mavcg_periodic *own = &service->networks[i];
        if (own->network >= all || !own->period_ns || !own->deadline_ns || own->reserved || own->preemptible > 1 ||
            own->priority < 0)
            return MAVCG_ERROR_OPTION;
        for (uint32_t other = 0; other < i; other++)
            if (service->networks[other].network == own->network || service->networks[other].priority == own->priority)
                return MAVCG_ERROR_OPTION;
    }
    return MAVCG_OK;
}

/* Return the accelerated network at this index of a service; NULL for one of the library. */
static const mavcg_accelerated *accelerated_at(const mavcg_service *service, const struct service_networks *networks,
                                               uint32_t index) {
    uint32_t number = service->networks[index].network;
    return number < networks->count ? NULL : &networks->accelerated[number - networks->count];
}

MAVCG_PRIVATE uint64_t accelerated_slots(const mavcg_service *service, const struct service_networks *networks) {
    uint64_t slots = 0;
    for (uint32_t i = 0; i < service->count; i++) {
        const mavcg_accelerated *own = accelerated_at(service, networks, i);
        if (own) slots += own->slots;
    }
    return slots;
}

static uint64_t service_now(const struct service_run *run) {
    return run->host->now(run->host->data) - run->origin_ns - run->left_out_ns;
}

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

/* Return true if the next job of a network is released and may begin. */
static bool may_begin(const struct service_run *run, uint32_t index, uint64_t now) {
    const struct service_state *state = &run->states[index];
    if (state->release_ns > now || state->release_ns >= run->service->duration_ns || ended(run)) return false;
    return !state->accelerated || job_in_state(state, NO_JOB);
}

/* Return the index of the most urgent network with a job that may run now, and a priority above this one; count: none
 * has. */
static uint32_t most_urgent(struct service_run *run, int64_t above, uint64_t now) {
    const mavcg_service *service = run->service;
    uint32_t best = service->count;
    advance_accelerators(run, now);
    for (uint32_t i = 0; i < service->count; i++) {
        if (service->networks[i].priority <= above) continue;
        if (!job_in_state(&run->states[i], READY) && !may_begin(run, i, now)) continue;
        best = i;
        above = service->networks[i].priority;
    }
    return best;
}

static void end_section(mavcg_job *job, uint64_t begin, uint64_t end) {
    if (end - begin > job->longest_section_ns) job->longest_section_ns = end - begin;
}

static void end_job(struct service_run *run, mavcg_job *job) {
    record(run, job);
    tell(run, job);
    if (job->status && job->status != MAVCG_SKIPPED) run->stopped = true;
}

/* Run a job of a network of the library. Returns a status of run. */
static int run_whole(struct service_run *run, uint32_t index, mavcg_job *job, uint64_t now) {
    const mavcg_periodic *below = run->active;
    mavcg_job *below_job = run->job;
    run->active = &run->service->networks[index];
    run->job = job;
    tell(run, job);
    job->begin_ns = run->section_ns = now;
    job->status = run->host->run(run->host->data, index, run);
    job->end_ns = service_now(run);
    end_section(job, run->section_ns, job->end_ns);
    run->active = below;
    run->job = below_job;
    end_job(run, job);
    return job->status;
}

/* Run the next part of a job, after which it waits for the accelerator, or has ended. Returns a status of run. */
static int run_part(struct service_run *run, uint32_t index, struct accelerated_job *own, uint64_t now) {
    const mavcg_periodic *periodic = &run->service->networks[index];
    struct service_state *state = &run->states[index];
    mavcg_job *job = &own->job;
    if (!own->part) tell(run, job);
    if (!own->part) job->begin_ns = now;
    uint32_t slot = (uint32_t)(own - state->slots);
    uint64_t left_out = 0;
    job->status = state->accelerated->run_part(state->accelerated->data, slot, own->part, periodic->inputs,
                                               periodic->outputs, &own->segment_ns, &left_out);
    run->left_out_ns += left_out;
    uint64_t end = service_now(run);
    end_section(job, now, end);
    own->since_ns = end;
    own->state = WAITING;
    if (!job->status && ++own->part < state->accelerated->parts) return MAVCG_OK;
    own->state = NO_JOB;
    job->end_ns = end;
    int status = job->status;
    end_job(run, job);
    return status;
}

/* Begin the next job of a network, or skip it if its deadline has passed; or run the next part of one that is under way.
 * Returns a status of run. */
static int run_job(struct service_run *run, uint32_t index, uint64_t now) {
    const mavcg_periodic *own = &run->service->networks[index];
    struct service_state *state = &run->states[index];
    struct accelerated_job *ready = job_in_state(state, READY);
    if (ready) return run_part(run, index, ready, now);
    mavcg_job job = {.network = own->network, .number = state->number, .release_ns = state->release_ns};
    state->number++;
    state->release_ns += own->period_ns;
    if (job.release_ns + own->deadline_ns <= now) {
        job.status = MAVCG_SKIPPED;
        end_job(run, &job);
        return MAVCG_OK;
    }
    if (!state->accelerated) return run_whole(run, index, &job, now);
    struct accelerated_job *begun = job_in_state(state, NO_JOB);
    *begun = (struct accelerated_job){.job = job};
    return run_part(run, index, begun, now);
}

/* Run released jobs above a priority until there are none. Returns the first status that is not MAVCG_OK. */
static int run_released(struct service_run *run, int64_t above) {
    int first = MAVCG_OK;
    for (;;) {
        uint64_t now = service_now(run);
        uint32_t index = most_urgent(run, above, now);
        if (index == run->service->count) return first;
        int status = run_job(run, index, now);
        if (status && !first) first = status;
    }
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

/* Return when the next job is released, or an accelerator ends a segment; UINT64_MAX: neither will be. */
static uint64_t next_event(const struct service_run *run) {
    uint64_t next = next_segment_end(run);
    for (uint32_t i = 0; i < run->service->count && !ended(run); i++) {
        uint64_t release = run->states[i].release_ns;
        bool begins = !run->states[i].accelerated || job_in_state(&run->states[i], NO_JOB);
        if (begins && release < run->service->duration_ns && release < next) next = release;
    }
    return next;
}

MAVCG_PRIVATE int run_service(mavcg_service *service, const struct service_networks *networks,
                              const struct service_host *host, struct service_state *states,
                              struct accelerated_job *slots) {
    struct service_run run = {.service = service, .host = host, .origin_ns = host->now(host->data), .states = states};
    memset(states, 0, service->count * sizeof *states);
    for (uint32_t i = 0; i < service->count; i++) {
        states[i].accelerated = accelerated_at(service, networks, i);
        if (!states[i].accelerated) continue;
        states[i].slots = slots;
        memset(slots, 0, states[i].accelerated->slots * sizeof *slots);
        slots += states[i].accelerated->slots;
    }
    service->job_count = 0;
    int first = MAVCG_OK;
    for (;;) {
        int status = run_released(&run, -1);
        if (status && !first) first = status;
        uint64_t next = next_event(&run);
        if (next == UINT64_MAX) return first;
        host->sleep_until(host->data, run.origin_ns + run.left_out_ns + next);
    }
}
