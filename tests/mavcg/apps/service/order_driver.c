/* Runs services on a clock that sections advance, and prints the sections in the order in which they ran.
 *
 * Reads services from stdin: "count duration", then for each network "period deadline priority preemptible accelerator
 * sections" and the ns of its sections; to those of job n, n * 7 % 4 is added. accelerator: -1, or its number, and every
 * second section is a segment on it; the host's clock then passes a third more, which is left out. Prints "network job
 * begin end" for each section on the processor, "network job -1 -1" for a job that was skipped, and "." after a
 * service. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "service.h"

enum { MOST = 8, SECTIONS = 64, SLOTS = 64 };

struct machine {
    uint64_t now, left_out;
    uint32_t counts[MOST];
    uint64_t sections[MOST][SECTIONS];
    uint32_t library, index_of[MOST]; /* networks that are not on accelerators; index of each network's number */
    uint64_t begun;                   /* number of the job that began last */
};

/* A network with segments on an accelerator. jobs: number of the job in each slot. */
struct on_accelerator {
    struct machine *machine;
    uint32_t index, parts;
    uint64_t jobs[SLOTS];
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

static void print_section(const struct machine *machine, uint32_t index, uint64_t job, uint64_t ns) {
    uint64_t end = machine->now - machine->left_out;
    printf("%" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", index, job, end - ns, end);
}

static int run_of(void *data, uint32_t index, struct service_run *run) {
    struct machine *machine = data;
    uint64_t job = run->job->number;
    for (uint32_t i = 0; i < machine->counts[index]; i++) {
        if (i) service_boundary(run);
        uint64_t ns = machine->sections[index][i] + job * 7 % 4;
        machine->now += ns;
        print_section(machine, index, job, ns);
    }
    return 0;
}

static int run_part_of(void *data, uint32_t slot, uint32_t part, const void *const *inputs, void *const *outputs,
                       uint64_t *segment_ns, uint64_t *left_out_ns) {
    (void)inputs, (void)outputs;
    struct on_accelerator *own = data;
    struct machine *machine = own->machine;
    if (!part) own->jobs[slot] = machine->begun;
    uint64_t added = own->jobs[slot] * 7 % 4, ns = machine->sections[own->index][2 * part] + added;
    *left_out_ns = ns / 3;
    machine->left_out += ns / 3;
    machine->now += ns + ns / 3;
    print_section(machine, own->index, own->jobs[slot], ns);
    if (part + 1 < own->parts) *segment_ns = machine->sections[own->index][2 * part + 1] + added;
    return 0;
}

static int on_job(void *data, const mavcg_job *job) {
    struct machine *machine = data;
    machine->begun = job->number;
    if (job->status == MAVCG_SKIPPED)
        printf("%" PRIu32 " %" PRIu64 " -1 -1\n", machine->index_of[job->network], job->number);
    return 0;
}

struct tested {
    struct machine machine;
    mavcg_periodic networks[MOST];
    mavcg_accelerated accelerated[MOST];
    struct on_accelerator own[MOST];
    struct service_networks all;
};

/* Read the networks of a service. Returns whether they are there. */
static bool read_networks(struct tested *tested, uint32_t count) {
    int32_t accelerators[MOST];
    struct machine *machine = &tested->machine;
    for (uint32_t i = 0; i < count; i++) {
        mavcg_periodic *own = &tested->networks[i];
        if (scanf("%" SCNu64 " %" SCNu64 " %" SCNd32 " %" SCNu32 " %" SCNd32 " %" SCNu32, &own->period_ns,
                  &own->deadline_ns, &own->priority, &own->preemptible, &accelerators[i], &machine->counts[i]) != 6 ||
            machine->counts[i] > SECTIONS)
            return false;
        for (uint32_t s = 0; s < machine->counts[i]; s++)
            if (scanf("%" SCNu64, &machine->sections[i][s]) != 1) return false;
        if (accelerators[i] < 0) own->network = machine->library++;
    }
    tested->all = (struct service_networks){machine->library, 0, tested->accelerated};
    for (uint32_t i = 0; i < count; i++) {
        mavcg_periodic *own = &tested->networks[i];
        if (accelerators[i] >= 0) {
            uint32_t number = tested->all.accelerated_count++, parts = machine->counts[i] / 2 + 1;
            own->network = machine->library + number;
            tested->own[number] = (struct on_accelerator){.machine = machine, .index = i, .parts = parts};
            tested->accelerated[number] = (mavcg_accelerated){
                &tested->own[number], (uint32_t)accelerators[i], parts, SLOTS, 0, run_part_of};
        }
        machine->index_of[own->network] = i;
    }
    return true;
}

int main(void) {
    uint32_t count;
    uint64_t duration;
    while (scanf("%" SCNu32 " %" SCNu64, &count, &duration) == 2) {
        static struct accelerated_job slots[MOST * SLOTS];
        struct tested tested = {.machine = {.now = 12345}};
        struct service_state states[MOST];
        mavcg_job jobs[SECTIONS];
        if (count > MOST || !read_networks(&tested, count)) return 1;
        const struct service_host host = {&tested.machine, now_of, sleep_of, stopping_of, run_of};
        mavcg_service service = {.networks = tested.networks,
                                 .count = count,
                                 .duration_ns = duration,
                                 .on_job = on_job,
                                 .data = &tested.machine,
                                 .jobs = jobs,
                                 .job_capacity = SECTIONS};
        if (check_service(&service, &tested.all) || accelerated_slots(&service, &tested.all) > MOST * SLOTS) return 1;
        if (run_service(&service, &tested.all, &host, states, slots)) return 1;
        for (uint64_t i = 1; i < service.job_count && i < SECTIONS; i++)
            if (jobs[i].end_ns && jobs[i - 1].end_ns > jobs[i].end_ns) return 1;
        puts(".");
    }
    return 0;
}
