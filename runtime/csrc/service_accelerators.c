/* Accelerators of a service: each computes a segment at a time to its end, that of the most urgent job first. */
#include "service.h"

MAVCG_PRIVATE struct accelerated_job *job_in_state(const struct service_state *state, enum accelerated_state which) {
    struct accelerated_job *oldest = NULL;
    for (uint32_t i = 0; state->accelerated && i < state->accelerated->slots; i++) {
        struct accelerated_job *own = &state->slots[i];
        if (own->state == which && (!oldest || own->job.number < oldest->job.number)) oldest = own;
    }
    return oldest;
}

static bool uses(const struct service_state *state, uint32_t accelerator) {
    return state->accelerated && state->accelerated->accelerator == accelerator;
}

/* End the segments that are computed by now. Returns whether there is one. */
static bool end_segments(struct service_run *run, uint64_t now) {
    bool any = false;
    for (uint32_t i = 0; i < run->service->count; i++) {
        struct accelerated_job *own = job_in_state(&run->states[i], COMPUTING);
        if (!own || own->end_ns > now) continue;
        own->state = READY;
        own->since_ns = own->end_ns;
        any = true;
        for (uint32_t other = 0; other < run->service->count; other++)
            if (uses(&run->states[other], run->states[i].accelerated->accelerator))
                run->states[other].free_ns = own->end_ns;
    }
    return any;
}

/* Return the most urgent job of an accelerator that waits for it by a time; of a network the oldest. NULL: none does. */
static struct accelerated_job *waiting_job(struct service_run *run, uint32_t accelerator, uint64_t by) {
    struct accelerated_job *best = NULL;
    int64_t priority = -1;
    for (uint32_t i = 0; i < run->service->count; i++) {
        struct service_state *state = &run->states[i];
        if (!uses(state, accelerator) || run->service->networks[i].priority < priority) continue;
        for (uint32_t slot = 0; slot < state->accelerated->slots; slot++) {
            struct accelerated_job *own = &state->slots[slot];
            bool older = run->service->networks[i].priority > priority || own->job.number < best->job.number;
            if (own->state != WAITING || own->since_ns > by || !older) continue;
            best = own;
            priority = run->service->networks[i].priority;
        }
    }
    return best;
}

/* Return since when a job waits for an accelerator, at the earliest; UINT64_MAX: none waits. */
static uint64_t first_waits(const struct service_run *run, uint32_t accelerator) {
    uint64_t first = UINT64_MAX;
    for (uint32_t i = 0; i < run->service->count; i++) {
        const struct service_state *state = &run->states[i];
        for (uint32_t slot = 0; uses(state, accelerator) && slot < state->accelerated->slots; slot++)
            if (state->slots[slot].state == WAITING && state->slots[slot].since_ns < first)
                first = state->slots[slot].since_ns;
    }
    return first;
}

/* Begin a segment on a network's accelerator, if it is free and a job waits. Returns whether it does. */
static bool begin_segment(struct service_run *run, const struct service_state *of) {
    uint32_t accelerator = of->accelerated->accelerator;
    for (uint32_t i = 0; i < run->service->count; i++)
        if (uses(&run->states[i], accelerator) && job_in_state(&run->states[i], COMPUTING)) return false;
    uint64_t begin = first_waits(run, accelerator);
    if (begin == UINT64_MAX) return false;
    if (begin < of->free_ns) begin = of->free_ns;
    struct accelerated_job *job = waiting_job(run, accelerator, begin);
    job->state = COMPUTING;
    job->end_ns = begin + job->segment_ns;
    return true;
}

MAVCG_PRIVATE void advance_accelerators(struct service_run *run, uint64_t now) {
    bool moved = true;
    while (moved) {
        moved = end_segments(run, now);
        for (uint32_t i = 0; i < run->service->count; i++)
            if (run->states[i].accelerated && begin_segment(run, &run->states[i])) moved = true;
    }
}

MAVCG_PRIVATE uint64_t next_segment_end(const struct service_run *run) {
    uint64_t next = UINT64_MAX;
    for (uint32_t i = 0; i < run->service->count; i++) {
        const struct accelerated_job *own = job_in_state(&run->states[i], COMPUTING);
        if (own && own->end_ns < next) next = own->end_ns;
    }
    return next;
}
