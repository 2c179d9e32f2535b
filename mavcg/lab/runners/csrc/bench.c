/* Times jobs on one CPU, or shared by threads on several, and prints a line of JSON for each: {"machine": ..}, {"job": ..},
 * .., {"end": ..}; or groups of jobs in interleaved measurement, with a line for each group: {"turns": [..]}.
 *
 * A job is a list of kernels over memory that is made here, of seeded random numbers. bench_jobs.h, which is generated,
 * has the jobs: struct job bench_jobs[BENCH_JOBS]. Arguments: --cpu 4,5 (a thread on each), --jobs 0-3,7, --turns 0-2,5
 * (a group; may be repeated), --seed N, --rounds N, --round-ns N, --least-ns N, --cold N, --evict-bytes N, --settle-ns N. Status: 0, 2 for bad arguments, 3 where
 * a CPU cannot be had. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { X, WEIGHTS, OUT, BIAS, RESIDUAL, WORKSPACE, BASES };
enum {
    GUARD = 256,
    ALIGN = 64,
    FILLING = 0xF7,
    MOST_ROUNDS = 64,
    MOST_OPERANDS = 8,
    NO_CPU = -1,
    MOST_CPUS = 1024,
    PATIENCE = 10,
    MAX_INTERLEAVED = 32
};

typedef void kernel(void *, int64_t, int64_t, void *);

struct place {
    int base;
    int64_t offset;
};

struct stage {
    kernel *run;
    int64_t rows;
    int operands;
    struct place places[MOST_OPERANDS];
};

/* Form of sparse weights (SparseWeights of mavcg/specs/primitive.py); blocks: 0 for weights that are numbers alone. */
struct sparse {
    int64_t blocks, rows, terms, term_bytes, entries;
};

/* Form of packed 8-bit weights (QuantisedWeights of mavcg/specs/primitive.py); terms: 0 for weights of f32. */
struct quantised {
    int64_t sums_at, sums, flips, factors_at, factors, terms;
};

struct job {
    int64_t bytes[BASES]; /* of each operand */
    int64_t scratch_bytes;
    const struct stage *stages;
    int stage_count;
    struct sparse sparse;
    struct quantised quantised;
};

#include "bench_jobs.h"

struct options {
    int64_t seed, rounds, round_ns, least_ns, cold, evict_bytes, settle_ns;
    const char *jobs, *cpus;
};

struct memory {
    uint8_t *whole, *inner;
    int64_t bytes;
};

struct times {
    double ns[MOST_ROUNDS]; /* of one run, by run_clock_ns */
    int lost[MOST_ROUNDS];  /* whether the core was taken away meanwhile */
    int count;
    int64_t runs, wall_ns, cpu_ns;
};

#include "bench_cpu.h"
#include "bench_memory.h"
#include "bench_team.h"

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* What a run takes: the thread's processor time; of several threads all that passes, for they wait for each other. */
static int64_t run_clock_ns(void) { return clock_ns(team.threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC); }

static void run_once(const struct job *job, void *tables[][MOST_OPERANDS]) {
    for (int i = 0; i < job->stage_count; i++) run_stage(&job->stages[i], tables[i]);
}

/* evict: NULL for warm rounds of `runs` runs, else each round is one run after that memory was read. */
static void take_rounds(struct times *times, const struct options *options, const struct job *job,
                        void *tables[][MOST_OPERANDS], int64_t runs, const struct memory *evict) {
    int64_t min_rounds = evict ? options->cold : options->rounds, least_ns = evict ? 0 : options->least_ns;
    int undisturbed = 0;
    memset(times, 0, sizeof *times);
    while (times->count < MOST_ROUNDS) {
        int enough = undisturbed >= min_rounds || times->wall_ns >= PATIENCE * options->least_ns; /* a busy machine */
        if (enough && times->count >= min_rounds && times->cpu_ns >= least_ns) break;
        if (evict) read_all(evict);
        long before = losses();
        int64_t wall = clock_ns(CLOCK_MONOTONIC), cpu = run_clock_ns();
        for (int64_t i = 0; i < runs; i++) run_once(job, tables);
        cpu = run_clock_ns() - cpu;
        wall = clock_ns(CLOCK_MONOTONIC) - wall;
        int lost = losses() != before;
        times->ns[times->count] = (double)cpu / (double)runs;
        times->lost[times->count++] = lost;
        times->runs += runs;
        times->cpu_ns += cpu > 0 ? cpu : 1;
        times->wall_ns += wall;
        undisturbed += !lost;
    }
}

static void print_times(const char *name, const struct times *times) {
    printf(", \"%s\": {\"ns\": [", name);
    for (int i = 0; i < times->count; i++) printf("%s%.1f", i ? ", " : "", times->ns[i]);
    printf("], \"lost\": [");
    for (int i = 0; i < times->count; i++) printf("%s%d", i ? ", " : "", times->lost[i]);
    printf("], \"runs\": %lld, \"cpu_ns\": %lld, \"wall_ns\": %lld}", (long long)times->runs, (long long)times->cpu_ns,
           (long long)times->wall_ns);
}

static void fault(int number, const char *words) {
    printf("{\"job\": %d, \"fault\": \"%s\"}\n", number, words);
    fflush(stdout);
}

/* A job with its memory. */
struct ready {
    const struct job *job;
    struct memory held[BASES], scratch[MOST_THREADS];
    void *(*tables)[MOST_OPERANDS];
    uint64_t sum;
    int64_t runs; /* of a round */
};

/* The threads' scratch memory is this job's from now on. */
static void take_scratch(const struct ready *ready) {
    for (int i = 0; i < team.threads; i++) team.scratch[i] = ready->scratch[i].inner;
}

/* Memory, numbers, the first run and how many make a round; 0 where there is not enough memory, which stays taken. */
static int make_ready(struct ready *ready, int number, const struct options *options) {
    const struct job *job = ready->job = &bench_jobs[number];
    ready->tables = malloc(sizeof *ready->tables * (size_t)job->stage_count);
    int enough = ready->tables != NULL;
    for (int base = 0; enough && base < BASES; base++) enough = make_memory(&ready->held[base], job->bytes[base]);
    for (int i = 0; enough && i < team.threads; i++) enough = make_memory(&ready->scratch[i], job->scratch_bytes);
    if (!enough) return 0;
    for (int base = 0; base < BASES; base++)
        if (base != OUT && base != WORKSPACE)
            fill_randomly(&ready->held[base], (uint64_t)options->seed * BASES + (uint64_t)base);
    if (job->quantised.terms > 0) fill_quantised(&ready->held[WEIGHTS], &job->quantised, (uint64_t)options->seed);
    if (job->sparse.blocks > 0) fill_positions(&ready->held[WEIGHTS], &job->sparse);
    for (int i = 0; i < job->stage_count; i++)
        for (int k = 0; k < job->stages[i].operands; k++)
            ready->tables[i][k] = ready->held[job->stages[i].places[k].base].inner + job->stages[i].places[k].offset;
    take_scratch(ready);
    run_once(job, ready->tables); /* touches all memory, and branches never seen */
    ready->sum = checksum(&ready->held[OUT]);
    int64_t once_ns = run_clock_ns();
    run_once(job, ready->tables);
    once_ns = run_clock_ns() - once_ns;
    int64_t runs = options->round_ns / (once_ns > 0 ? once_ns : 1);
    ready->runs = runs > 0 ? runs : 1;
    return 1;
}

/* What is wrong after all runs, or NULL; gives the memory back. */
static const char *put_away(struct ready *ready) {
    int sound = 1, cpu = this_cpu();
    for (int i = 0; i < team.threads; i++)
        sound = sound && guards_hold(&ready->scratch[i]), free(ready->scratch[i].whole);
    for (int base = 0; base < BASES; base++)
        sound = sound && guards_hold(&ready->held[base]), free(ready->held[base].whole);
    free(ready->tables);
    if (!sound) return "memory outside of its operands was written";
    if (team.cpus[0] != NO_CPU && cpu != NO_CPU && cpu != team.cpus[0])
        return "the CPU was taken away, and another one ran it";
    return NULL;
}

static const char no_memory[] = "there is not enough memory";

static void do_job(int number, const struct options *options, const struct memory *evict) {
    struct ready ready;
    struct condition before = condition_of(this_cpu());
    if (!make_ready(&ready, number, options)) {
        fault(number, no_memory);
        exit(4); /* what was taken is given back by ending; the others are run anew */
    }
    struct times warm, cold;
    take_rounds(&warm, options, ready.job, ready.tables, ready.runs, NULL);
    if (options->cold) take_rounds(&cold, options, ready.job, ready.tables, 1, evict);
    int cpu = this_cpu();
    const char *wrong = put_away(&ready);
    if (wrong) {
        fault(number, wrong);
        return;
    }
    printf("{\"job\": %d, \"sum\": \"%016llx\", \"cpu\": %d", number, (unsigned long long)ready.sum, cpu);
    print_conditions(before, condition_of(cpu));
    print_times("warm", &warm);
    if (options->cold) print_times("cold", &cold);
    printf("}\n");
    fflush(stdout);
}

#include "bench_interleaved.h"

static int64_t number_of(const char *option, const char *text) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < 0) {
        fprintf(stderr, "bench: %s %s: is no number from 0 on\n", option, text);
        exit(2);
    }
    return value;
}

static void read_options(struct options *options, int count, char **words) {
    struct {
        const char *name;
        int64_t *to;
    } known[] = {{"--seed", &options->seed},          {"--rounds", &options->rounds},
                 {"--round-ns", &options->round_ns},  {"--least-ns", &options->least_ns},
                 {"--cold", &options->cold},          {"--evict-bytes", &options->evict_bytes},
                 {"--settle-ns", &options->settle_ns}};
    for (int i = 1; i < count; i += 2) {
        int found = 0;
        for (size_t k = 0; i + 1 < count && k < sizeof known / sizeof known[0]; k++)
            if (!strcmp(words[i], known[k].name)) *known[k].to = number_of(words[i], words[i + 1]), found = 1;
        if (i + 1 < count && !strcmp(words[i], "--jobs")) options->jobs = words[i + 1], found = 1;
        if (i + 1 < count && !strcmp(words[i], "--cpu")) options->cpus = words[i + 1], found = 1;
        if (i + 1 < count && !strcmp(words[i], "--turns")) found = 1; /* read when they are measured */
        if (!found) {
            fprintf(stderr, "bench: %s: no such option, or nothing after it\n", words[i]);
            exit(2);
        }
    }
}

/* The next of "0-3,7", all below `end`: from *first to *last; 0 at the end. */
static int next_range(const char *option, const char **text, int64_t end, int64_t *first, int64_t *last) {
    if (!**text) return 0;
    char *rest;
    *first = *last = strtoll(*text, &rest, 10);
    int bad = rest == *text;
    if (!bad && *rest == '-') *last = strtoll(rest + 1, &rest, 10);
    if (bad || (*rest && *rest != ',') || *first < 0 || *last < *first || *last >= end) {
        fprintf(stderr, "bench: %s: '%s' are none of 0 to %lld\n", option, *text, (long long)end - 1);
        exit(2);
    }
    *text = *rest ? rest + 1 : rest;
    return 1;
}

static void read_cpus(const char *text) {
    int64_t first, last;
    int count = 0;
    while (next_range("--cpu", &text, MOST_CPUS, &first, &last))
        for (int64_t cpu = first; cpu <= last; cpu++) {
            if (count == MOST_THREADS) {
                fprintf(stderr, "bench: --cpu: more than %d\n", MOST_THREADS);
                exit(2);
            }
            team.cpus[count++] = (int)cpu;
        }
    if (count) team.threads = count;
}

/* The jobs of a group, which has one at least; how many. */
static int read_group(const char *text, int jobs[MAX_INTERLEAVED]) {
    int64_t first, last;
    int count = 0;
    while (next_range("--turns", &text, BENCH_JOBS, &first, &last))
        for (int64_t job = first; job <= last; job++) {
            if (count == MAX_INTERLEAVED) {
                fprintf(stderr, "bench: --turns: more than %d\n", MAX_INTERLEAVED);
                exit(2);
            }
            jobs[count++] = (int)job;
        }
    return count;
}

int main(int count, char **words) {
    struct options options = {1, 5, 1000000, 5000000, 0, 0, 0, "", ""};
    struct memory evict = {0};
    int64_t first, last;
    read_options(&options, count, words);
    read_cpus(options.cpus);
    for (const char *rest = options.jobs; next_range("--jobs", &rest, BENCH_JOBS, &first, &last);)
        continue; /* refuse before measuring */
    int group[MAX_INTERLEAVED];
    for (int i = 1; i + 1 < count; i += 2)
        if (!strcmp(words[i], "--turns")) read_group(words[i + 1], group);
    int missing = start_team();
    if (missing != NO_CPU) {
        printf("{\"fault\": \"CPU %d cannot be had: %s\"}\n", missing, strerror(errno));
        return 3;
    }
    if (options.cold && !make_memory(&evict, options.evict_bytes)) {
        printf("{\"fault\": \"no memory to fill the caches with: %lld bytes\"}\n", (long long)options.evict_bytes);
        return 4;
    }
    for (int64_t until = clock_ns(CLOCK_MONOTONIC) + options.settle_ns; clock_ns(CLOCK_MONOTONIC) < until;)
        continue; /* so that the governor raises the clock */
    print_machine("machine", BENCH_JOBS);
    for (const char *rest = options.jobs; next_range("--jobs", &rest, BENCH_JOBS, &first, &last);)
        for (int64_t job = first; job <= last; job++) do_job((int)job, &options, &evict);
    for (int i = 1; i + 1 < count; i += 2)
        if (!strcmp(words[i], "--turns")) measure_interleaved(group, read_group(words[i + 1], group), &options);
    print_machine("end", BENCH_JOBS);
    return 0;
}
