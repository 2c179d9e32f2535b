/* Times loops on one CPU and prints a line of JSON for each: {"loop": 3, "ns": [..], "clock": [..]}, the time of one body
 * and, before and after it, of one of the additions that depend on one another, in each round; at the end {"end": LOOPS}.
 *
 * calibrate_loops.h, which is generated, has the functions: calibrate_loop *const loops[LOOPS], the first of which is
 * the one of additions. Arguments: CPU FILE ROUND_NS SECONDS. CPU: -1 for any. A line of the file is a loop:
 * FUNCTION ITERATIONS WARM BODIES PARAMETER BYTES NODE RUN COLD. No loop begins after SECONDS. Status: 0, 2 for bad
 * arguments, 3 where the CPU or memory cannot be had. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

typedef void calibrate_loop(uint64_t iterations, void *memory, uint64_t parameter);
#include "calibrate_loops.h"

enum { SCRATCH_BYTES = 4096, WALKS = 16, ROUNDS = 5, CLOCK_ITERATIONS = 512, CLOCK_BODIES = 64, MOST_GROWTH = 1 << 16 };
static const int64_t most_bytes = (int64_t)1 << 30;

struct job {
    int64_t function, iterations, warm, bodies, parameter, bytes, node, run, cold;
};

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double timed(calibrate_loop *run, int64_t iterations, void *memory, int64_t parameter) {
    double start = now_ns();
    run((uint64_t)iterations, memory, (uint64_t)parameter);
    return now_ns() - start;
}

static double addition_ns(void *scratch) {
    return timed(loops[0], CLOCK_ITERATIONS, scratch, 0) / (CLOCK_ITERATIONS * (double)CLOCK_BODIES);
}

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The nodes of a walk in its order, by their numbers; NULL without memory. */
static uint32_t *walk_order(const struct job *job, int64_t count) {
    uint32_t *order = malloc((size_t)count * sizeof *order);
    if (!order) return NULL;
    int64_t runs = count / job->run;
    uint64_t state = 0x9E3779B97F4A7C15u;
    for (int64_t n = 0; n < runs; n++) order[n * job->run] = (uint32_t)(n * job->run);
    for (int64_t n = runs - 1; n > 0; n--) {
        int64_t other = (int64_t)(next_random(&state) % (uint64_t)(n + 1));
        uint32_t node = order[n * job->run];
        order[n * job->run] = order[other * job->run];
        order[other * job->run] = node;
    }
    for (int64_t n = 0; n < runs * job->run; n++) order[n] = order[n / job->run * job->run] + (uint32_t)(n % job->run);
    return order;
}

static char *node_of(char *memory, const struct job *job, const uint32_t *order, int64_t at) {
    return memory + SCRATCH_BYTES + (int64_t)order[at] * job->node;
}

/* Write the first addresses of the walks, further on in each round, so that no cache has the nodes of the last one. */
static void write_starts(char *memory, const struct job *job, const uint32_t *order, int64_t count, int64_t round) {
    char **words = (char **)(void *)memory;
    for (int64_t n = 0; n < WALKS; n++) {
        int64_t at = n * count / WALKS + (job->cold ? round * (count / WALKS / (ROUNDS + 1)) : 0);
        words[n] = node_of(memory, job, order, at % count);
    }
}

static void measure(const struct job *job, int64_t number, char *memory, const uint32_t *order, int64_t count, void *scratch,
                    double round_ns) {
    double ns[ROUNDS], clock[ROUNDS];
    calibrate_loop *run = loops[job->function];
    int64_t times = 1;
    for (int64_t round = 0; round <= ROUNDS; round++) {
        if (order) write_starts(memory, job, order, count, round);
        double before = addition_ns(scratch), bodies = (double)(job->iterations * times * job->bodies), less = 0;
        if (!job->cold) less = timed(run, job->warm, memory, job->parameter);
        double whole = timed(run, (job->cold ? 0 : job->warm) + job->iterations * times, memory, job->parameter);
        double after = addition_ns(scratch);
        if (round == 0) { /* does not count: code and pages are touched, and the repetitions are chosen */
            while (!job->cold && times < MOST_GROWTH && whole * (double)times < round_ns) times *= 2;
            continue;
        }
        ns[round - 1] = (whole > less ? whole - less : 0) / bodies;
        clock[round - 1] = (before + after) / 2;
    }
    printf("{\"loop\": %lld, \"ns\": [", (long long)number);
    for (int n = 0; n < ROUNDS; n++) printf("%s%.5f", n ? ", " : "", ns[n]);
    printf("], \"clock\": [");
    for (int n = 0; n < ROUNDS; n++) printf("%s%.5f", n ? ", " : "", clock[n]);
    printf("]}\n");
    fflush(stdout);
}

static int good(const struct job *job) {
    return job->function >= 0 && job->function < LOOPS && job->iterations > 0 && job->warm > 0 && job->bodies > 0 &&
           job->bytes >= 0 && job->bytes <= most_bytes &&
           (job->bytes == 0 || (job->node >= 8 && job->run > 0 && job->bytes / job->node >= job->run * WALKS));
}

/* Run one loop; returns 0 where there is no memory for it. */
static int run_job(const struct job *job, int64_t number, void *scratch, double round_ns) {
    size_t bytes = SCRATCH_BYTES + (size_t)job->bytes;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 0;
#ifdef MADV_HUGEPAGE
    (void)madvise(memory, bytes, MADV_HUGEPAGE); /* so that misses of the TLB are few; not granted everywhere */
#endif
    int64_t count = job->bytes ? job->bytes / job->node / job->run * job->run : 0;
    uint32_t *order = count ? walk_order(job, count) : NULL;
    if (count && !order) return (void)munmap(memory, bytes), 0;
    for (int64_t n = 0; n < count; n++)
        *(char **)(void *)node_of(memory, job, order, n) = node_of(memory, job, order, (n + 1) % count);
    measure(job, number, memory, order, count, scratch, round_ns);
    free(order);
    munmap(memory, bytes);
    return 1;
}

int main(int argc, char **argv) {
    static _Alignas(64) char scratch[SCRATCH_BYTES];
    if (argc != 5) return fprintf(stderr, "calibrate: needs CPU FILE ROUND_NS SECONDS\n"), 2;
    long cpu = strtol(argv[1], NULL, 10);
    double round_ns = strtod(argv[3], NULL), until = now_ns() + strtod(argv[4], NULL) * 1e9;
    if (cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        if (cpu < CPU_SETSIZE) CPU_SET((size_t)cpu, &set);
        if (cpu >= CPU_SETSIZE || sched_setaffinity(0, sizeof set, &set))
            return fprintf(stderr, "calibrate: CPU %ld cannot be had\n", cpu), 3;
    }
    FILE *file = fopen(argv[2], "r");
    if (!file) return fprintf(stderr, "calibrate: %s cannot be read\n", argv[2]), 2;
    char line[256];
    int64_t number = 0;
    while (fgets(line, sizeof line, file) && now_ns() < until) {
        int64_t values[9];
        char *at = line;
        for (int n = 0; n < 9; n++) values[n] = strtoll(at, &at, 10);
        struct job job;
        memcpy(&job, values, sizeof job);
        if (!good(&job)) return fprintf(stderr, "calibrate: line %lld is no loop\n", (long long)number + 1), 2;
        if (!run_job(&job, number, scratch, round_ns)) return fprintf(stderr, "calibrate: no memory\n"), 3;
        number++;
    }
    fclose(file);
    printf("{\"end\": %lld}\n", (long long)number);
    return 0;
}
