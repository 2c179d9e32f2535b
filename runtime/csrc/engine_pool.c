/* A step's rows done by several threads.
 *
 * The caller of run hands a step over by writing its number and no rows into `ticket`. Whoever has time claims some of the
 * rows that are left by adding them there (engine_claim.c says which, and how many); no rows left means that there is nothing
 * (more) to do. The step is complete when all its rows are counted in `done`, whoever did them: a thread that
 * comes late, or not at all, delays nobody.
 *
 * A late thread's claim may fall into a later step, even of a later run, and even where the ticket that it read is long
 * gone and only looks the same again. It is as good as any: the value that it replaces names the step and the rows, how
 * many of these it takes is its own affair, and while it holds unfinished rows of a step, that step's pointers stay as
 * they are. For the same reason a thread that has claimed rows, and not told yet, need not ask whether it is still in the
 * step of the ticket. */

/* A ticket that nothing was handed over for: no step has so many rows, counted at one end or at both. */
static const uint64_t NO_ROWS = 0xFFFFFFFF;

enum { USUAL_WEIGHT = 256 };

/* As if it were a function: what is picked is the id of the core that this thread runs on. Not NULL, `next` keeps it out of
 * what MAVCG_TRACE prints. */
static struct mavcg_function core_number = {"", core_ids, core_runs, (struct mavcg_function *)1};

static void *picked(struct mavcg_function *function) {
    void *version = MAVCG_NAME(version, MAVCG_SET)(function); /* NULL: it takes more than a look */
    return version ? version : MAVCG_NAME(select, MAVCG_SET)(function);
}

static uint32_t core_here(void) { return (uint32_t)(uintptr_t)picked(&core_number); }

/* Rows from begin to end, a block at a time: each by the version for the core that this thread then runs on. */
static void do_rows(struct mavcg_context *context, const struct engine_step *step, uint32_t begin, uint32_t end,
                    void *scratch) {
    for (uint32_t next; begin < end; begin = next) {
        next = end - begin > step->block ? begin + step->block : end;
        engine_kernel *kernel = (engine_kernel *)picked(&functions[step->function]);
        kernel(context->operands + step->first_operand, begin, next, scratch);
    }
}

static char *scratch_of(const struct mavcg_context *context, uint32_t thread) {
    return context->scratch + (size_t)thread * SCRATCH_STRIDE;
}

/* The speed, in this step, of the core that a thread runs on. The thread is counted there from now on. */
static uint32_t weight_here(struct engine_pool *pool, const struct engine_step *step, uint32_t thread) {
    if (!step->weights) return USUAL_WEIGHT;
    uint32_t core = core_here(), *seen = thread ? &pool->threads[thread - 1].core : &pool->caller_core;
    if (*seen != core) {
        __atomic_sub_fetch(&pool->on_core[*seen], 1, __ATOMIC_RELAXED);
        __atomic_add_fetch(&pool->on_core[core], 1, __ATOMIC_RELAXED);
        *seen = core;
    }
    return weight_table[step->weights][core];
}

/* What the threads can do together in a step, if they stay where they were last seen. */
static struct engine_team team_of(const struct mavcg_context *context, const struct engine_step *step) {
    struct engine_team team = {(uint64_t)context->threads * USUAL_WEIGHT, USUAL_WEIGHT};
    if (!step->weights) return team;
    team.total = team.fastest = 0;
    for (uint32_t core = 0; core < VERSIONS; core++) {
        uint32_t threads = __atomic_load_n(&context->pool.on_core[core], __ATOMIC_RELAXED);
        uint32_t weight = weight_table[step->weights][core];
        team.total += (uint64_t)threads * weight;
        if (threads && weight > team.fastest) team.fastest = weight;
    }
    return team;
}

/* One claim, by a thread that is in the step already or is not: begin, and how many rows, 0 when it gets none (any more). The
 * step is what the ticket named. */
static const struct engine_step *claim_rows(struct engine_pool *pool, uint32_t thread, int in, uint32_t *begin,
                                            uint32_t *rows) {
    uint64_t ticket = __atomic_load_n(&pool->ticket, __ATOMIC_ACQUIRE);
    for (;;) {
        const struct engine_step *step = &run_table[ticket_step(ticket)];
        struct engine_claim claim = {ticket, 0, 0};
        /* Of another step, maybe, where the ticket was replaced meanwhile: then this claim fails, or is of another size. */
        struct engine_team team = {__atomic_load_n(&pool->team_total, __ATOMIC_RELAXED),
                                   __atomic_load_n(&pool->team_fastest, __ATOMIC_RELAXED)};
        if (rows_left(ticket, step->rows))
            claim = claim_of(ticket, in, thread & 1, step->rows, step->grain, weight_here(pool, step, thread), team);
        *begin = claim.begin;
        *rows = claim.rows;
        if (claim.ticket == ticket || __atomic_compare_exchange_n(&pool->ticket, &ticket, claim.ticket, 0,
                                                                  __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return step;
    }
}

/* Do rows until there are none to be had. What was done is told at the end, in one go: the step cannot end before. */
static void take_part(struct mavcg_context *context, uint32_t thread) {
    struct engine_pool *pool = &context->pool;
    uint32_t did = 0, begin, rows;
    for (int in = !thread;; in = 1) { /* the caller is in the step from the beginning */
        const struct engine_step *step = claim_rows(pool, thread, in, &begin, &rows);
        if (rows) {
            if (thread && !did) set_float_mode(context->float_mode);
            do_rows(context, step, begin, begin + rows, scratch_of(context, thread));
            did += rows;
            continue;
        }
        if (did && __atomic_add_fetch(&pool->done, did, __ATOMIC_SEQ_CST) == step->rows && thread &&
            __atomic_load_n(&pool->caller_sleeps, __ATOMIC_SEQ_CST))
            wake(&pool->done, 1);
        return;
    }
}

static void wait_until_done(struct engine_pool *pool, uint32_t rows) {
    uint32_t done = __atomic_load_n(&pool->done, __ATOMIC_ACQUIRE);
    while (done != rows && changes_soon(&pool->done, done, pool->spin))
        done = __atomic_load_n(&pool->done, __ATOMIC_ACQUIRE);
    if (done == rows) return;
    __atomic_store_n(&pool->caller_sleeps, 1, __ATOMIC_SEQ_CST);
    while ((done = __atomic_load_n(&pool->done, __ATOMIC_SEQ_CST)) != rows) sleep_while(&pool->done, done);
    __atomic_store_n(&pool->caller_sleeps, 0, __ATOMIC_RELAXED);
}

/* Threads that sleep are in step with the kernel: it compares `posted` before it lets them, and here `posted` is raised
 * before it is looked whether any sleep. */
static void post(struct engine_pool *pool, uint32_t wanted) {
    __atomic_add_fetch(&pool->posted, 1, __ATOMIC_SEQ_CST);
    uint32_t sleepers = __atomic_load_n(&pool->sleepers, __ATOMIC_SEQ_CST);
    if (sleepers) wake(&pool->posted, sleepers < wanted ? sleepers : wanted);
}

static uint32_t grains_of(const struct engine_step *step) {
    return step->rows / step->grain + (step->rows % step->grain != 0);
}

static void run_together(struct mavcg_context *context, uint32_t number) {
    struct engine_pool *pool = &context->pool;
    const struct engine_step *step = &run_table[number];
    struct engine_team team = team_of(context, step);
    __atomic_store_n(&pool->team_total, team.total, __ATOMIC_RELAXED);
    __atomic_store_n(&pool->team_fastest, team.fastest, __ATOMIC_RELAXED);
    __atomic_store_n(&pool->done, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&pool->ticket, first_ticket(number), __ATOMIC_RELEASE);
    post(pool, grains_of(step) - 1);
    take_part(context, 0);
    wait_until_done(pool, step->rows);
}

static uint32_t next_posted(struct engine_pool *pool, uint32_t seen) {
    if (!changes_soon(&pool->posted, seen, pool->spin)) {
        __atomic_add_fetch(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&pool->posted, __ATOMIC_SEQ_CST) == seen) sleep_while(&pool->posted, seen);
        __atomic_sub_fetch(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
    }
    return __atomic_load_n(&pool->posted, __ATOMIC_ACQUIRE);
}

/* A plan's CPUs, of those that this thread may use. Where it may use none of them, as the program has moved elsewhere since
 * create, it stays free. */
static void keep_to_cpus(const struct mavcg_context *context, uint32_t thread) {
    uint16_t cpus[MAX_THREADS];
    const int pinned = (context->flags & MAVCG_PIN) != 0;
    if (!context->plan && !pinned) return;
    uint32_t count = allowed_cpus(cpus, MAX_THREADS), chosen = count;
    if (context->plan) chosen = cpus_of_plan(context->plan, cpus, count < MAX_THREADS ? count : MAX_THREADS);
    if (pinned && thread < chosen) stay_on(cpus + thread, 1); /* the first is left to the caller */
    else if (!pinned && chosen && chosen < count) stay_on(cpus, chosen);
}

static void *thread_main(void *argument) {
    struct engine_thread *thread = argument;
    struct engine_pool *pool = &thread->context->pool;
    uint32_t seen = pool->first_posted;
    keep_to_cpus(thread->context, thread->number);
    for (;;) {
        seen = next_posted(pool, seen);
        if (__atomic_load_n(&pool->stop, __ATOMIC_ACQUIRE)) return NULL;
        take_part(thread->context, thread->number);
    }
}

static void stop_workers(struct mavcg_context *context) {
    struct engine_pool *pool = &context->pool;
    struct process_state *process = context->process;
    __atomic_store_n(&pool->stop, 1, __ATOMIC_RELEASE);
    post(pool, process->running);
    for (uint32_t i = 0; i < process->running; i++) pthread_join(pool->threads[i].handle, NULL);
    process->workers = process->running = 0;
}

/* The threads that the context lacks in this process: all in its first run, and in the first one in a forked child,
 * where the parent's are not. */
static int start_workers(struct mavcg_context *context, uint32_t process) {
    struct engine_pool *pool = &context->pool;
    struct process_state *state = context->process;
    sigset_t all, before;
    if (state->workers == process) return MAVCG_OK;
    state->running = pool->stop = pool->sleepers = pool->caller_sleeps = pool->done = 0;
    pool->first_posted = pool->posted;
    pool->ticket = NO_ROWS;
    memset(pool->on_core, 0, sizeof pool->on_core);
    pool->caller_core = core_here(); /* where the others are they say when they come; until then: here */
    pool->on_core[pool->caller_core] = context->threads;
    sigfillset(&all); /* signals are the program's: its own threads get them */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 0; i + 1 < context->threads; i++) {
        struct engine_thread *thread = &pool->threads[i];
        thread->context = context;
        thread->number = i + 1;
        thread->core = pool->caller_core;
        if (pthread_create(&thread->handle, NULL, thread_main, thread)) break;
        state->running++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    state->workers = process;
    if (state->running + 1 == context->threads) return MAVCG_OK;
    stop_workers(context);
    return MAVCG_ERROR_THREADS;
}
