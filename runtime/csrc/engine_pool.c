/* Distributes a step's rows among threads. */
#include "engine_pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

#include "engine.h"
#include "engine_affinity.h"
#include "engine_chunk.h"
#include "engine_counts.h"
#include "engine_machine.h"
#include "engine_options.h"
#include "engine_paging.h"
#include "engine_process.h"
#include "engine_system.h"
#include "engine_wait.h"
#include "engine_wake.h"
#include "internal.h"

/* The ticket while no step is active: its row counts exceed those of any step, whether counted at one end or at
 * both. */
static const uint64_t NO_ROWS = 0xFFFFFFFF;

enum { DEFAULT_SPEED = 256 };

/* The stack of a worker, in bytes. Kernels keep their data in the context's scratch and have frames of a few KiB at
 * most (spilled registers); the engine's own functions need 4 KiB. The system commits memory only for pages that are
 * touched. */
enum { STACK_BYTES = 512 << 10 };

/* A function whose "versions" are the core ids: selecting a version returns the id of the core that this thread runs
 * on. `next` is not NULL, which keeps the function out of the list that MAVCG_TRACE prints. */
static struct mavcg_function core_number = {"", core_ids, core_runs, (struct mavcg_function *)1};

static void *select_version(struct mavcg_function *function) {
    void *version = MAVCG_NAME(version, MAVCG_SET)(function); /* NULL: the selector must look it up */
    return version ? version : MAVCG_NAME(select, MAVCG_SET)(function);
}

MAVCG_PRIVATE uint32_t current_core(void) { return (uint32_t)(uintptr_t)select_version(&core_number); }

/* Return the rows of the next call where `left` are left. The rows of a run of bounded dimensions are no multiple of a
 * call's: a small rest is computed with the last call, as a call of its own would read all of the step's weights for it.
 * call_rows is below 1 << 31. */
static uint32_t rows_of_call(const struct engine_step *step, uint32_t left) {
    uint32_t last = step->call_rows + (DIMENSIONS ? step->call_rows / 4 : 0);
    return left > last ? step->call_rows : left;
}

MAVCG_PRIVATE void compute_rows(struct mavcg_context *context, const struct engine_step *step, uint32_t begin,
                                uint32_t end, void *scratch) {
    void **operands = context->operands + step->first_operand;
    if (step->kernel == MOVE) {
        memcpy((char *)operands[1] + (size_t)begin * MOVED_LINE, (const char *)operands[0] + (size_t)begin * MOVED_LINE,
               (size_t)(end - begin) * MOVED_LINE);
        return;
    }
    for (uint32_t next; begin < end; begin = next) {
        next = begin + rows_of_call(step, end - begin);
        engine_kernel *kernel = (engine_kernel *)select_version(&functions[step->kernel]);
        kernel(operands, step->first_row + begin, step->first_row + next, scratch);
    }
}

static char *scratch_of(const struct mavcg_context *context, uint32_t thread) {
    return context->scratch + (size_t)thread * SCRATCH_STRIDE;
}

/* Return the speed, for this step, of the core that the thread runs on, and record the thread as running there. */
static uint32_t current_speed(struct engine_pool *pool, const struct engine_step *step, uint32_t thread) {
    if (!step->speeds) return DEFAULT_SPEED;
    uint32_t core = current_core(), *seen = thread ? &pool->threads[thread - 1].core : &pool->caller_core;
    if (*seen != core) {
        __atomic_sub_fetch(&pool->on_core[*seen], 1, __ATOMIC_RELAXED);
        __atomic_add_fetch(&pool->on_core[core], 1, __ATOMIC_RELAXED);
        *seen = core;
    }
    return speed_table[step->speeds][core];
}

/* Compute the total and the highest speed of all threads in a step, assuming that each stays on the core where it was
 * last seen. */
static struct engine_team team_of(const struct mavcg_context *context, const struct engine_step *step) {
    struct engine_team team = {(uint64_t)context->threads * DEFAULT_SPEED, DEFAULT_SPEED};
    if (!step->speeds) return team;
    team.total = team.fastest = 0;
    for (uint32_t core = 0; core < VERSIONS; core++) {
        uint32_t threads = __atomic_load_n(&context->pool.on_core[core], __ATOMIC_RELAXED);
        uint32_t speed = speed_table[step->speeds][core];
        team.total += (uint64_t)threads * speed;
        if (threads && speed > team.fastest) team.fastest = speed;
    }
    return team;
}

/* Take one chunk. in: the thread is already in the step. *begin, *rows: receive the chunk; rows is 0 if there is none.
 * Returns the number of the phase that the ticket named. */
static uint32_t take_chunk(struct mavcg_context *context, uint32_t thread, bool in, uint32_t *begin, uint32_t *rows) {
    struct engine_pool *pool = &context->pool;
    uint64_t ticket = __atomic_load_n(&pool->ticket, __ATOMIC_ACQUIRE);
    for (;;) {
        const struct engine_step *step = &run_table[ticket_step(ticket)];
        uint32_t step_rows = phase_rows(context, ticket_step(ticket));
        struct engine_chunk chunk = {ticket, 0, 0};
        /* If the ticket was replaced meanwhile, these may be the speeds for another step: then this attempt fails, or
         * the chunk only has another size. */
        struct engine_team team = {__atomic_load_n(&pool->team_total, __ATOMIC_RELAXED),
                                   __atomic_load_n(&pool->team_fastest, __ATOMIC_RELAXED)};
        if (rows_left(ticket, step_rows))
            chunk = next_chunk(ticket, in, thread & 1, step_rows, step->min_chunk_rows,
                               current_speed(pool, step, thread), team);
        *begin = chunk.begin;
        *rows = chunk.rows;
        if (chunk.ticket == ticket ||
            __atomic_compare_exchange_n(&pool->ticket, &ticket, chunk.ticket, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return ticket_step(ticket);
    }
}

/* Compute chunks until none are left. The thread counts its rows once, at the end: the step cannot end before that. */
static void compute_chunks(struct mavcg_context *context, uint32_t thread) {
    struct engine_pool *pool = &context->pool;
    uint32_t computed = 0, begin, rows;
    for (bool in = !thread;; in = true) { /* the caller is in the step from the start */
        uint32_t phase = take_chunk(context, thread, in, &begin, &rows);
        if (rows) {
            if (thread && !computed) set_float_mode(context->float_mode);
            compute_rows(context, &run_table[phase], begin, begin + rows, scratch_of(context, thread));
            computed += rows;
            continue;
        }
        if (computed && __atomic_add_fetch(&pool->done, computed, __ATOMIC_SEQ_CST) == phase_rows(context, phase) &&
            thread && __atomic_load_n(&pool->caller_sleeps, __ATOMIC_SEQ_CST))
            wake(&pool->done, 1);
        return;
    }
}

/* Compute chunks, counted among the threads in steps where rows may change between runs. The caller of run is not
 * counted: it changes them itself. */
static void work_on_step(struct mavcg_context *context, uint32_t thread) {
    uint32_t *in_steps = &context->pool.in_steps;
    if (DIMENSIONS && thread) {
        __atomic_add_fetch(in_steps, 1, __ATOMIC_SEQ_CST);
        __atomic_thread_fence(__ATOMIC_SEQ_CST); /* the ticket is read after that, see leave_steps */
    }
    compute_chunks(context, thread);
    if (DIMENSIONS && thread) __atomic_sub_fetch(in_steps, 1, __ATOMIC_RELEASE);
}

#if DIMENSIONS /* the model has bounded dimensions */

/* A thread counts itself before it reads the ticket, and this function replaces the ticket before it reads the count.
 * So a thread that is not counted then will read the new ticket, or that of a later run. A forked child has none of its
 * parent's threads. */
MAVCG_PRIVATE void leave_steps(struct mavcg_context *context) {
    struct engine_pool *pool = &context->pool;
    if (context->process->workers != this_process(context)) return;
    __atomic_store_n(&pool->ticket, NO_ROWS, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (uint32_t seen; (seen = __atomic_load_n(&pool->in_steps, __ATOMIC_SEQ_CST));)
        if (!spin_until_change(&pool->in_steps, seen, pool->spin_ns)) sched_yield();
}

#endif

static void wait_until_done(struct engine_pool *pool, uint32_t rows) {
    uint32_t done = __atomic_load_n(&pool->done, __ATOMIC_ACQUIRE);
    while (done != rows && spin_until_change(&pool->done, done, pool->spin_ns))
        done = __atomic_load_n(&pool->done, __ATOMIC_ACQUIRE);
    if (done == rows) return;
    __atomic_store_n(&pool->caller_sleeps, 1, __ATOMIC_SEQ_CST);
    while ((done = __atomic_load_n(&pool->done, __ATOMIC_SEQ_CST)) != rows) sleep_while(&pool->done, done);
    __atomic_store_n(&pool->caller_sleeps, 0, __ATOMIC_RELAXED);
}

/* Wake threads; on a virtual machine none on the caller's CPU. */
static void wake_threads(struct mavcg_context *context, uint32_t threads) {
    struct engine_pool *pool = &context->pool;
    const uint32_t workers = pool->virtual_cpus ? context->process->running : 0;
    const int32_t cpu = workers ? this_cpu() : -1;
    for (uint32_t i = 0; i < workers; i++) {
        struct engine_thread *thread = &pool->threads[i];
        bool sleeps = __atomic_load_n(&thread->sleeps, __ATOMIC_ACQUIRE);
        thread->kept_off = sleeps && cpu >= 0 && keep_off_cpu(thread->id, (uint32_t)cpu, pool->virtual_cpus);
    }
    wake(&pool->posted, threads);
    for (uint32_t i = 0; i < workers; i++)
        if (pool->threads[i].kept_off) allow_all_cpus(pool->threads[i].id);
}

/* Announce a step to the threads, and wake at most max_wakes of them. No wake-up is lost: the kernel compares `posted`
 * before it lets a thread sleep, and this function increments `posted` before it reads the number of sleepers. */
static void post(struct mavcg_context *context, uint32_t max_wakes) {
    struct engine_pool *pool = &context->pool;
    __atomic_add_fetch(&pool->posted, 1, __ATOMIC_SEQ_CST);
    uint32_t sleepers = __atomic_load_n(&pool->sleepers, __ATOMIC_SEQ_CST);
    if (sleepers) wake_threads(context, sleepers < max_wakes ? sleepers : max_wakes);
}

MAVCG_PRIVATE uint32_t min_chunks(const struct engine_step *step, uint32_t rows) {
    return rows / step->min_chunk_rows + (rows % step->min_chunk_rows != 0);
}

MAVCG_PRIVATE void run_in_parallel(struct mavcg_context *context, uint32_t number) {
    struct engine_pool *pool = &context->pool;
    const struct engine_step *step = &run_table[number];
    uint32_t rows = phase_rows(context, number);
    struct engine_team team = team_of(context, step);
    __atomic_store_n(&pool->team_total, team.total, __ATOMIC_RELAXED);
    __atomic_store_n(&pool->team_fastest, team.fastest, __ATOMIC_RELAXED);
    __atomic_store_n(&pool->done, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&pool->ticket, first_ticket(number), __ATOMIC_RELEASE);
    post(context, min_chunks(step, rows) - 1);
    work_on_step(context, 0);
    wait_until_done(pool, rows);
}

/* Wait until `posted` differs from `seen`. Returns its new value. */
static uint32_t wait_for_post(struct engine_pool *pool, struct engine_thread *thread, uint32_t seen) {
    if (!spin_until_change(&pool->posted, seen, pool->spin_ns)) {
        __atomic_store_n(&thread->sleeps, true, __ATOMIC_RELEASE);
        __atomic_add_fetch(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&pool->posted, __ATOMIC_SEQ_CST) == seen) sleep_while(&pool->posted, seen);
        __atomic_store_n(&thread->sleeps, false, __ATOMIC_RELAXED);
        __atomic_sub_fetch(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
    }
    return __atomic_load_n(&pool->posted, __ATOMIC_ACQUIRE);
}

/* Restrict the thread to those CPUs of a plan (or, if the context pins its threads, to the one CPU) that it may use. If
 * it may use none of them, because the program's affinity has changed since create, it stays unrestricted. */
static void restrict_to_cpus(const struct mavcg_context *context, uint32_t thread) {
    uint16_t cpus[MAX_THREADS];
    const bool pinned = (context->flags & MAVCG_PIN) != 0;
    if (!context->plan && !pinned) return;
    uint32_t count = allowed_cpus(cpus, MAX_THREADS), chosen = count;
    if (context->plan) chosen = cpus_of_plan(context->plan, cpus, count < MAX_THREADS ? count : MAX_THREADS);
    if (pinned && thread < chosen) set_affinity(cpus + thread, 1); /* the first CPU is left to the caller */
    else if (!pinned && chosen && chosen < count) set_affinity(cpus, chosen);
}

/* Name the calling thread mavcg-<number>, for ps, top, debuggers and profilers. The kernel accepts 15 bytes. */
static void name_thread(uint32_t number) {
    char name[6 + DECIMAL_BYTES] = "mavcg-";
    decimal_text(name + 6, number);
#if defined(__APPLE__)
    pthread_setname_np(name);
#else
    pthread_setname_np(pthread_self(), name);
#endif
}

static void *thread_main(void *argument) {
    struct engine_thread *thread = argument;
    struct engine_pool *pool = &thread->context->pool;
    uint32_t seen = pool->first_posted;
    thread->id = this_thread();
    name_thread(thread->number);
    restrict_to_cpus(thread->context, thread->number);
    for (;;) {
        seen = wait_for_post(pool, thread, seen);
        if (__atomic_load_n(&pool->stop, __ATOMIC_ACQUIRE)) return NULL;
        help_paging(thread->context);
        work_on_step(thread->context, thread->number);
    }
}

MAVCG_PRIVATE void stop_workers(struct mavcg_context *context) {
    struct engine_pool *pool = &context->pool;
    struct process_state *process = context->process;
    __atomic_store_n(&pool->stop, 1, __ATOMIC_RELEASE);
    post(context, process->running);
    for (uint32_t i = 0; i < process->running; i++) pthread_join(pool->threads[i].handle, NULL);
    process->workers = process->running = 0;
}

/* Start one thread. glibc takes static thread-local storage out of the stack, and returns EINVAL if the program has
 * more of it than our stack holds: the thread then gets a stack of the system's default size. */
static int start_thread(struct engine_thread *thread) {
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error) return error;
    error = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (!error) error = pthread_create(&thread->handle, &attributes, thread_main, thread);
    pthread_attr_destroy(&attributes);
    return error == EINVAL ? pthread_create(&thread->handle, NULL, thread_main, thread) : error;
}

MAVCG_PRIVATE int start_workers(struct mavcg_context *context, uint32_t process) {
    struct engine_pool *pool = &context->pool;
    struct process_state *state = context->process;
    sigset_t all, before;
    if (state->workers == process) return MAVCG_OK;
    state->running = pool->stop = pool->sleepers = pool->caller_sleeps = pool->done = pool->in_steps = 0;
    pool->first_posted = pool->posted;
    const bool restricted = context->plan || context->flags & MAVCG_PIN || !pool->spin_ns; /* or more than CPUs */
    pool->virtual_cpus = restricted ? 0 : virtual_cpus();
    pool->ticket = NO_ROWS;
    memset(pool->on_core, 0, sizeof pool->on_core);
    pool->caller_core = current_core(); /* an estimate until each thread reports its core */
    pool->on_core[pool->caller_core] = context->threads;
    sigfillset(&all); /* block all signals: the program's own threads handle them */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 0; i + 1 < context->threads; i++) {
        struct engine_thread *thread = &pool->threads[i];
        thread->context = context;
        thread->number = i + 1;
        thread->core = pool->caller_core;
        thread->sleeps = false;
        if (start_thread(thread)) break;
        state->running++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    state->workers = process;
    if (state->running + 1 == context->threads) return MAVCG_OK;
    stop_workers(context);
    return MAVCG_ERROR_THREADS;
}
