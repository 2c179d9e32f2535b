/* Measure one round of a job, after a run that brings its operands into the caches. */
static void measure_round(const struct ready *ready, struct times *times) {
    take_scratch(ready);
    run_once(ready->job, ready->tables);
    long before = losses();
    int64_t wall = clock_ns(CLOCK_MONOTONIC), took = run_clock_ns();
    for (int64_t i = 0; i < ready->runs; i++) run_once(ready->job, ready->tables);
    took = run_clock_ns() - took;
    times->ns[times->count] = (double)took / (double)ready->runs;
    times->lost[times->count++] = losses() != before;
    times->runs += ready->runs;
    times->cpu_ns += took;
    times->wall_ns += clock_ns(CLOCK_MONOTONIC) - wall;
}

/* Interleaved measurement of jobs; each round begins with a different job, so that noise falls on all of them. */
static void measure_interleaved(const int *jobs, int count, const struct options *options) {
    static struct ready ready[MAX_INTERLEAVED];
    static struct times times[MAX_INTERLEAVED];
    const char *wrong = NULL;
    struct condition before = condition_of(this_cpu());
    memset(times, 0, sizeof times);
    for (int i = 0; i < count; i++)
        if (!make_ready(&ready[i], jobs[i], options)) {
            for (int k = 0; k < count; k++) fault(jobs[k], no_memory);
            exit(4);
        }
    for (int64_t round = 0; round < options->rounds && round < MOST_ROUNDS; round++)
        for (int i = 0; i < count; i++) {
            int next = (int)((i + round) % count);
            measure_round(&ready[next], &times[next]);
        }
    for (int i = 0; i < count; i++) {
        const char *job_fault = put_away(&ready[i]);
        if (job_fault) wrong = job_fault;
    }
    for (int i = 0; wrong && i < count; i++) fault(jobs[i], wrong);
    if (wrong) return;
    struct condition after = condition_of(this_cpu());
    printf("{\"turns\": [");
    for (int i = 0; i < count; i++) {
        printf("%s{\"job\": %d, \"sum\": \"%016llx\"", i ? ", " : "", jobs[i], (unsigned long long)ready[i].sum);
        print_times("times", &times[i]);
        printf("}");
    }
    printf("]");
    print_conditions(before, after);
    printf("}\n");
    fflush(stdout);
}
