/* Runs services on a clock that sections advance, and prints the sections in the order in which they ran.
 *
 * Reads services from stdin: "count duration", then for each network "period deadline priority preemptible sections"
 * and the ns of its sections; to those of job n, n * 7 % 4 is added. Prints "network job begin end" for each section,
 * "network job -1 -1" for a job that was skipped, and "." after a service. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "service.h"

enum { MOST = 8, SECTIONS = 64 };

struct machine {
    uint64_t now;
    uint32_t counts[MOST];
    uint64_t sections[MOST][SECTIONS], jobs[MOST];
};

static uint64_t now_of(void *data) { return ((struct machine *)data)->now; }

static void sleep_of(void *data, uint64_t ns) {
    struct machine *machine = data;
    if (machine->now < ns) machine->now = ns;
}

static bool stopping_of(void *data) {
    (void)data;
    return false;
}

static int run_of(void *data, uint32_t index, struct service_run *run) {
    struct machine *machine = data;
    uint64_t job = run->job->number;
    for (uint32_t i = 0; i < machine->counts[index]; i++) {
        if (i) service_boundary(run);
        uint64_t begin = machine->now;
        machine->now += machine->sections[index][i] + job * 7 % 4;
        printf("%" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", index, job, begin, machine->now);
    }
    return 0;
}

static int on_job(void *data, const mavcg_job *job) {
    (void)data;
    if (job->status == MAVCG_SKIPPED) printf("%" PRIu32 " %" PRIu64 " -1 -1\n", job->network, job->number);
    return 0;
}

int main(void) {
    uint32_t count;
    uint64_t duration;
    while (scanf("%" SCNu32 " %" SCNu64, &count, &duration) == 2) {
        struct machine machine = {.now = 12345};
        mavcg_periodic networks[MOST] = {{0}};
        struct service_state states[MOST];
        mavcg_job jobs[SECTIONS];
        if (count > MOST) return 1;
        for (uint32_t i = 0; i < count; i++) {
            mavcg_periodic *own = &networks[i];
            own->network = i;
            if (scanf("%" SCNu64 " %" SCNu64 " %" SCNd32 " %" SCNu32 " %" SCNu32, &own->period_ns, &own->deadline_ns,
                      &own->priority, &own->preemptible, &machine.counts[i]) != 5 ||
                machine.counts[i] > SECTIONS)
                return 1;
            for (uint32_t s = 0; s < machine.counts[i]; s++)
                if (scanf("%" SCNu64, &machine.sections[i][s]) != 1) return 1;
        }
        const struct service_host host = {&machine, now_of, sleep_of, stopping_of, run_of};
        mavcg_service service = {.networks = networks,
                                 .count = count,
                                 .duration_ns = duration,
                                 .on_job = on_job,
                                 .jobs = jobs,
                                 .job_capacity = SECTIONS};
        if (check_service(&service, count) || run_service(&service, &host, states)) return 1;
        for (uint64_t i = 1; i < service.job_count && i < SECTIONS; i++)
            if (jobs[i].end_ns && jobs[i - 1].end_ns > jobs[i].end_ns) return 1;
        puts(".");
    }
    return 0;
}
