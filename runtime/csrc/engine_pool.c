/* A step's tasks done by several threads.
 *
 * The caller of run hands a step over by writing its number and task 0 into `ticket`. Whoever has time claims the next
 * task by adding one; a claim beyond the last task means that there is nothing (more) to do. The step is complete
 * when all its tasks are counted in `done`, whoever did them: a thread that comes late, or not at all, delays nobody.
 *
 * A late thread's claim may fall into a later step, even of a later run. It is as good as any: the value that it gets
 * names the step, and while it holds an unfinished task of a step, that step's pointers stay as they are. */

/* A claim that nothing was handed over for. Far below 2^32, so that idle claims never reach the step's number. */
static const uint64_t NO_TASKS = (uint64_t)1 << 31;

static void do_task(struct mavcg_context *context, uint32_t number, uint32_t task, void *scratch) {
    const struct engine_step *run = &run_table[number];
    const mavcg_step *step = &steps_table[number];
    int64_t begin = (int64_t)task * step->grain, end = begin + step->grain;
    struct mavcg_function *function = &functions[run->function];
    void *kernel = MAVCG_NAME(version, MAVCG_SET)(function); /* NULL: it takes more than a look */
    if (!kernel) kernel = MAVCG_NAME(select, MAVCG_SET)(function);
    if (end > step->rows) end = step->rows;
    ((engine_kernel *)kernel)(context->operands + run->first_operand, begin, end, scratch);
}

static char *scratch_of(const struct mavcg_context *context, uint32_t thread) {
    return context->scratch + (size_t)thread * SCRATCH_STRIDE;
}

/* Do tasks until there are none. What was done is told at the end, in one go: the step cannot end before. */
static void take_part(struct mavcg_context *context, uint32_t thread) {
    struct engine_pool *pool = &context->pool;
    uint32_t did = 0;
    for (;;) {
        uint64_t ticket = __atomic_fetch_add(&pool->ticket, 1, __ATOMIC_ACQ_REL);
        uint32_t step = (uint32_t)(ticket >> 32), task = (uint32_t)ticket, tasks = run_table[step].tasks;
        if (task < tasks) {
            if (thread && !did) set_float_mode(context->float_mode);
            do_task(context, step, task, scratch_of(context, thread));
            did++;
            continue;
        }
        if (did && __atomic_add_fetch(&pool->done, did, __ATOMIC_SEQ_CST) == tasks && thread &&
            __atomic_load_n(&pool->caller_sleeps, __ATOMIC_SEQ_CST))
            wake(&pool->done, 1);
        return;
    }
}

static void wait_until_done(struct engine_pool *pool, uint32_t tasks) {
    uint32_t done = __atomic_load_n(&pool->done, __ATOMIC_ACQUIRE);
    while (done != tasks && changes_soon(&pool->done, done, pool->spin))
        done = __atomic_load_n(&pool->done, __ATOMIC_ACQUIRE);
    if (done == tasks) return;
    __atomic_store_n(&pool->caller_sleeps, 1, __ATOMIC_SEQ_CST);
    while ((done = __atomic_load_n(&pool->done, __ATOMIC_SEQ_CST)) != tasks) sleep_while(&pool->done, done);
    __atomic_store_n(&pool->caller_sleeps, 0, __ATOMIC_RELAXED);
}

/* Threads that sleep are in step with the kernel: it compares `posted` before it lets them, and here `posted` is raised
 * before it is looked whether any sleep. */
static void post(struct engine_pool *pool, uint32_t wanted) {
    __atomic_add_fetch(&pool->posted, 1, __ATOMIC_SEQ_CST);
    uint32_t sleepers = __atomic_load_n(&pool->sleepers, __ATOMIC_SEQ_CST);
    if (sleepers) wake(&pool->posted, sleepers < wanted ? sleepers : wanted);
}

static void run_together(struct mavcg_context *context, uint32_t step) {
    struct engine_pool *pool = &context->pool;
    uint32_t tasks = run_table[step].tasks;
    __atomic_store_n(&pool->done, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&pool->ticket, (uint64_t)step << 32, __ATOMIC_RELEASE);
    post(pool, tasks - 1);
    take_part(context, 0);
    wait_until_done(pool, tasks);
}

static uint32_t next_posted(struct engine_pool *pool, uint32_t seen) {
    if (!changes_soon(&pool->posted, seen, pool->spin)) {
        __atomic_add_fetch(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&pool->posted, __ATOMIC_SEQ_CST) == seen) sleep_while(&pool->posted, seen);
        __atomic_sub_fetch(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
    }
    return __atomic_load_n(&pool->posted, __ATOMIC_ACQUIRE);
}

static void *thread_main(void *argument) {
    struct engine_thread *thread = argument;
    struct engine_pool *pool = &thread->context->pool;
    uint32_t seen = pool->first_posted;
    if (thread->context->flags & MAVCG_PIN) {
        uint16_t cpus[MAX_THREADS];
        uint32_t count = allowed_cpus(cpus, MAX_THREADS);
        if (thread->number < count) pin_to(cpus[thread->number]); /* the first is left to the caller */
    }
    for (;;) {
        seen = next_posted(pool, seen);
        if (__atomic_load_n(&pool->stop, __ATOMIC_ACQUIRE)) return NULL;
        take_part(thread->context, thread->number);
    }
}

static void stop_workers(struct engine_pool *pool) {
    __atomic_store_n(&pool->stop, 1, __ATOMIC_RELEASE);
    post(pool, pool->running);
    for (uint32_t i = 0; i < pool->running; i++) pthread_join(pool->threads[i].handle, NULL);
    pool->process = pool->running = 0;
}

/* The threads that the context lacks in this process: all in its first run, and in the first one in a forked child,
 * where the parent's are not. */
static int start_workers(struct mavcg_context *context, uint32_t process) {
    struct engine_pool *pool = &context->pool;
    sigset_t all, before;
    if (pool->process == process) return MAVCG_OK;
    pool->running = pool->stop = pool->sleepers = pool->caller_sleeps = pool->done = 0;
    pool->first_posted = pool->posted;
    pool->ticket = NO_TASKS;
    sigfillset(&all); /* signals are the program's: its own threads get them */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 0; i + 1 < context->threads; i++) {
        struct engine_thread *thread = &pool->threads[i];
        thread->context = context;
        thread->number = i + 1;
        if (pthread_create(&thread->handle, NULL, thread_main, thread)) break;
        pool->running++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pool->process = process;
    if (pool->running + 1 == context->threads) return MAVCG_OK;
    stop_workers(pool);
    return MAVCG_ERROR_THREADS;
}
