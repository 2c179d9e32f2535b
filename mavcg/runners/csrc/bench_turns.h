/* One turn of a job: a run that brings its operands near, then a round. */
static void take_turn(const struct ready *ready, struct times *times) {
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

/* Jobs that take turns, each round beginning with another one: what disturbs the machine disturbs all of them. */
static void do_turns(const int *jobs, int count, const struct options *options) {
    static struct ready ready[MOST_TURNS];
    static struct times times[MOST_TURNS];
    const char *wrong = NULL;
    memset(times, 0, sizeof times);
    for (int i = 0; i < count; i++)
        if (!make_ready(&ready[i], jobs[i], options)) {
            for (int k = 0; k < count; k++) fault(jobs[k], no_memory);
            exit(4);
        }
    for (int64_t round = 0; round < options->rounds && round < MOST_ROUNDS; round++)
        for (int i = 0; i < count; i++) {
            int turn = (int)((i + round) % count);
            take_turn(&ready[turn], &times[turn]);
        }
    for (int i = 0; i < count; i++) {
        const char *found = put_away(&ready[i]);
        if (found) wrong = found;
    }
    for (int i = 0; wrong && i < count; i++) fault(jobs[i], wrong);
    if (wrong) return;
    printf("{\"turns\": [");
    for (int i = 0; i < count; i++) {
        printf("%s{\"job\": %d, \"sum\": \"%016llx\"", i ? ", " : "", jobs[i], (unsigned long long)ready[i].sum);
        print_times("times", &times[i]);
        printf("}");
    }
    printf("]}\n");
    fflush(stdout);
}
