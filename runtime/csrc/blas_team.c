/* Starts threads at the first call that needs them (and again in a forked child process), and shares steps among
 * them. */
#include "blas_team.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "blas.h"
#include "blas_placement.h"
#include "engine_chunk.h"
#include "engine_machine.h"
#include "engine_wait.h"
#include "internal.h"

enum {
    MOST_THREADS = 256,
    THREAD_STACK_BYTES = 512 << 10,
    EQUAL_SPEED = 256,
    LINE_BYTES = 128,
    THREAD_NAME_BYTES = 16,
    STEP_NUMBERS = 1 << 20
};

#ifndef WIPE_ON_FORK    /* tests emulate a kernel without it */
#define WIPE_ON_FORK 18 /* MADV_WIPEONFORK of include/uapi/asm-generic/mman-common.h */
#endif

static const int UNKNOWN_ADVICE = -1;

/* The ticket while no step is active. It replaces the old ticket, so that a thread that has read the old one cannot
 * take a chunk by it. The step's descriptor is written only while the ticket is CLOSED. */
static const uint64_t CLOSED = ~(uint64_t)0;

/* State of a single process, in a page that the kernel clears in a forked child (engine_process.h). All zero: the team
 * is free and no thread runs. */
struct process_page {
    uint64_t owner;   /* the process whose thread has the team */
    uint32_t started; /* the process that started the running threads */
    uint32_t running; /* number of running threads, without callers */
};

/* Words that are polled have cache lines of their own. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct blas_team {
    struct process_page *page;
    bool cleared_in_child;
    uint32_t threads; /* threads in this call, the caller included; more may be running after a larger call */
    uint32_t float_mode;
    uint32_t caller_cpu; /* the CPU on which the caller began its call (blas_placement.h) */
    uint64_t spin_ns;
    /* The active step; only threads that hold one of its tickets read it. */
    step_function *run;
    const void *work;
    uint32_t rows, min_chunk_rows, step_number, total_speed, fastest;
    uint8_t core_of[MOST_THREADS]; /* the core id that a thread was last seen on */
    __attribute__((aligned(LINE_BYTES))) uint64_t ticket;
    uint32_t posted, sleepers, caller_sleeps;
    __attribute__((aligned(LINE_BYTES))) uint32_t done;
};

static struct blas_team the_team;
static uint32_t chosen_threads; /* 0: not chosen yet */

BLAS_EXPORT void mavcg_blas_set_num_threads(int threads);
BLAS_EXPORT int mavcg_blas_get_num_threads(void);

static uint32_t limited(long threads) {
    return threads < 1 ? 1 : threads < MOST_THREADS ? (uint32_t)threads : MOST_THREADS;
}

/* Return the first of these variables that is a number above 0; of an OpenMP list such as "4,2" only the first
 * (outermost) number counts. */
static uint32_t threads_by_environment(void) {
    static const char *const names[] = {"MAVCG_BLAS_NUM_THREADS", "OMP_NUM_THREADS"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        long threads = value ? strtol(value, NULL, 10) : 0;
        if (threads > 0) return limited(threads);
    }
    return 0;
}

static uint32_t requested_threads(void) {
    uint32_t threads = __atomic_load_n(&chosen_threads, __ATOMIC_RELAXED);
    if (threads) return threads;
    threads = threads_by_environment();
    if (!threads) threads = limited(allowed_cpus(NULL, 0));
    __atomic_store_n(&chosen_threads, threads, __ATOMIC_RELAXED);
    return threads;
}

void mavcg_blas_set_num_threads(int threads) { __atomic_store_n(&chosen_threads, limited(threads), __ATOMIC_RELAXED); }

int mavcg_blas_get_num_threads(void) { return (int)requested_threads(); }

/* A function whose "versions" are the core ids: selecting a version returns the current core's id (engine_pool.c). */
static struct mavcg_function core_number = {"", core_ids, core_runs, (struct mavcg_function *)1};

static uint32_t core_now(void) {
    void *version = MAVCG_NAME(version, MAVCG_SET)(&core_number);
    if (!version) version = MAVCG_NAME(select, MAVCG_SET)(&core_number);
    return (uint32_t)(uintptr_t)version;
}

static uint32_t speed_now(struct blas_team *team, uint32_t thread) {
    if (EQUAL_CORES) return EQUAL_SPEED;
    uint32_t core = core_now();
    __atomic_store_n(&team->core_of[thread], (uint8_t)core, __ATOMIC_RELAXED);
    return core_speeds[core];
}

/* Compute the total and the highest speed of all threads, assuming that each stays on the core where it was last
 * seen. */
static void weigh_team(struct blas_team *team, uint32_t threads) {
    uint32_t total = 0, fastest = 0;
    for (uint32_t thread = 0; thread < threads; thread++) {
        uint32_t core = __atomic_load_n(&team->core_of[thread], __ATOMIC_RELAXED);
        uint32_t speed = EQUAL_CORES ? EQUAL_SPEED : core_speeds[core];
        total += speed;
        if (speed > fastest) fastest = speed;
    }
    __atomic_store_n(&team->total_speed, total, __ATOMIC_RELAXED);
    __atomic_store_n(&team->fastest, fastest, __ATOMIC_RELAXED);
}

/* Take one chunk. A thread reads the step's descriptor before its ticket is accepted: if the step changes in between,
 * the ticket changes as well, unless exactly 2^20 steps have passed. Returns the number of rows; 0: none are left. */
static uint32_t take_chunk(struct blas_team *team, uint32_t thread, bool in, uint32_t *begin) {
    uint64_t ticket = __atomic_load_n(&team->ticket, __ATOMIC_ACQUIRE);
    for (;;) {
        if (ticket_step(ticket) == STEP_NUMBERS - 1) return 0; /* no active step */
        uint32_t rows = __atomic_load_n(&team->rows, __ATOMIC_RELAXED);
        uint32_t min_chunk_rows = __atomic_load_n(&team->min_chunk_rows, __ATOMIC_RELAXED);
        struct engine_team speeds = {__atomic_load_n(&team->total_speed, __ATOMIC_RELAXED),
                                     __atomic_load_n(&team->fastest, __ATOMIC_RELAXED)};
        struct engine_chunk chunk = {ticket, 0, 0};
        if (min_chunk_rows && rows_left(ticket, rows))
            chunk = next_chunk(ticket, in, thread & 1, rows, min_chunk_rows, speed_now(team, thread), speeds);
        *begin = chunk.begin;
        if (chunk.ticket == ticket) return chunk.rows;
        if (__atomic_compare_exchange_n(&team->ticket, &ticket, chunk.ticket, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return chunk.rows;
    }
}

static void work_on_step(struct blas_team *team, uint32_t thread) {
    uint32_t computed = 0, begin, rows;
    for (bool in = !thread; (rows = take_chunk(team, thread, in, &begin)) != 0; in = true) {
        if (thread && !computed) set_float_mode(__atomic_load_n(&team->float_mode, __ATOMIC_RELAXED));
        step_function *run = __atomic_load_n(&team->run, __ATOMIC_RELAXED);
        run(__atomic_load_n(&team->work, __ATOMIC_RELAXED), begin, begin + rows);
        computed += rows;
    }
    if (!computed) return;
    uint32_t all = __atomic_load_n(&team->rows, __ATOMIC_RELAXED); /* the step cannot end before it is counted */
    if (__atomic_add_fetch(&team->done, computed, __ATOMIC_SEQ_CST) == all && thread &&
        __atomic_load_n(&team->caller_sleeps, __ATOMIC_SEQ_CST))
        wake(&team->done, 1);
}

static void wait_until_done(struct blas_team *team, uint32_t rows) {
    uint32_t done = __atomic_load_n(&team->done, __ATOMIC_ACQUIRE);
    while (done != rows && spin_until_change(&team->done, done, team->spin_ns))
        done = __atomic_load_n(&team->done, __ATOMIC_ACQUIRE);
    if (done == rows) return;
    __atomic_store_n(&team->caller_sleeps, 1, __ATOMIC_SEQ_CST);
    while ((done = __atomic_load_n(&team->done, __ATOMIC_SEQ_CST)) != rows) sleep_while(&team->done, done);
    __atomic_store_n(&team->caller_sleeps, 0, __ATOMIC_RELAXED);
}

static void post(struct blas_team *team, uint32_t max_wakes) {
    __atomic_add_fetch(&team->posted, 1, __ATOMIC_SEQ_CST);
    uint32_t sleepers = __atomic_load_n(&team->sleepers, __ATOMIC_SEQ_CST);
    if (sleepers) wake(&team->posted, sleepers < max_wakes ? sleepers : max_wakes);
}

MAVCG_PRIVATE uint32_t team_threads(const struct blas_team *team) { return team ? team->threads : 1; }

MAVCG_PRIVATE void run_step(struct blas_team *team, step_function *run, const void *work, uint32_t rows,
                            uint32_t min_chunk_rows) {
    if (!team || rows <= min_chunk_rows) {
        run(work, 0, rows);
        return;
    }
    weigh_team(team, team_threads(team));
    __atomic_store_n(&team->run, run, __ATOMIC_RELAXED);
    __atomic_store_n(&team->work, work, __ATOMIC_RELAXED);
    __atomic_store_n(&team->rows, rows, __ATOMIC_RELAXED);
    __atomic_store_n(&team->min_chunk_rows, min_chunk_rows, __ATOMIC_RELAXED);
    __atomic_store_n(&team->done, 0, __ATOMIC_RELAXED);
    team->step_number = (team->step_number + 1) % (STEP_NUMBERS - 1); /* skip the number of CLOSED */
    __atomic_store_n(&team->ticket, first_ticket(team->step_number), __ATOMIC_RELEASE);
    bool all_take_part = team->threads == team->page->running + 1;
    post(team, all_take_part ? (rows - 1) / min_chunk_rows : team->page->running);
    work_on_step(team, 0);
    wait_until_done(team, rows);
    __atomic_store_n(&team->ticket, CLOSED, __ATOMIC_SEQ_CST);
}

static uint32_t wait_for_post(struct blas_team *team, uint32_t seen, struct blas_placement *placement) {
    if (!spin_apart(&team->posted, seen, team->spin_ns, placement)) {
        __atomic_add_fetch(&team->sleepers, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&team->posted, __ATOMIC_SEQ_CST) == seen) sleep_while(&team->posted, seen);
        __atomic_sub_fetch(&team->sleepers, 1, __ATOMIC_SEQ_CST);
    }
    return __atomic_load_n(&team->posted, __ATOMIC_ACQUIRE);
}

static void *thread_main(void *number) {
    const uint32_t thread = (uint32_t)(uintptr_t)number;
    char name[THREAD_NAME_BYTES];
    snprintf(name, sizeof name, "mavcg-blas-%u", thread);
    pthread_setname_np(pthread_self(), name);
    struct blas_placement placement = {&the_team.caller_cpu, 0};
    for (uint32_t seen = 0;;) {
        seen = wait_for_post(&the_team, seen, &placement);
        if (thread < __atomic_load_n(&the_team.threads, __ATOMIC_RELAXED)) work_on_step(&the_team, thread);
    }
    return NULL;
}

/* Start a thread. If our stack size is too small for the program's thread-local storage, use the system's default size
 * (engine_pool.c). */
static bool start_thread(uint32_t number) {
    pthread_attr_t attributes;
    pthread_t handle;
    if (pthread_attr_init(&attributes)) return false;
    int error = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (!error) error = pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
    if (!error) error = pthread_create(&handle, &attributes, thread_main, (void *)(uintptr_t)number);
    pthread_attr_destroy(&attributes);
    if (error != EINVAL) return !error;
    if (pthread_create(&handle, NULL, thread_main, (void *)(uintptr_t)number)) return false;
    pthread_detach(handle);
    return true;
}

/* Start the missing threads: all of them at the first call, and at the first call in a forked child process. */
static void start_threads(struct blas_team *team, uint32_t process, uint32_t requested) {
    struct process_page *page = team->page;
    sigset_t all, before;
    if (page->started != process) {
        page->started = process;
        page->running = 0;
        team->posted = team->sleepers = team->caller_sleeps = 0;
        team->ticket = CLOSED;
        team->spin_ns = requested <= allowed_cpus(NULL, 0) ? (uint64_t)SPIN_US * 1000 : 0;
    }
    if (page->running + 1 >= requested) return;
    sigfillset(&all); /* block all signals: the program's own threads handle them */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (page->running + 1 < requested) {
        team->core_of[page->running + 1] = team->core_of[0]; /* an estimate until the thread reports its core */
        if (!start_thread(page->running + 1)) break;
        page->running++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static struct process_page *process_page(struct blas_team *team) {
    struct process_page *page = __atomic_load_n(&team->page, __ATOMIC_ACQUIRE), *other = NULL;
    if (page) return page;
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return NULL;
    /* Probe with invalid advice first: only a kernel that rejects it is trusted to honour the other (engine_process.h).
     * All threads that run this get the same result. */
    __atomic_store_n(&team->cleared_in_child,
                     madvise(page, bytes, UNKNOWN_ADVICE) && !madvise(page, bytes, WIPE_ON_FORK), __ATOMIC_RELAXED);
    if (__atomic_compare_exchange_n(&team->page, &other, page, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return page;
    munmap(page, bytes);
    return other;
}

MAVCG_PRIVATE struct blas_team *take_team(void) {
    struct blas_team *team = &the_team;
    uint32_t requested = requested_threads();
    struct process_page *page = requested > 1 ? process_page(team) : NULL;
    if (!page) return NULL;
    uint32_t process = __atomic_load_n(&team->cleared_in_child, __ATOMIC_RELAXED) ? 1 : (uint32_t)getpid();
    uint64_t owner = 0;
    while (!__atomic_compare_exchange_n(&page->owner, &owner, process, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        if (owner == process) return NULL;
    if (!EQUAL_CORES) team->core_of[0] = (uint8_t)core_now();
    start_threads(team, process, requested);
    __atomic_store_n(&team->float_mode, float_mode(), __ATOMIC_RELAXED);
    __atomic_store_n(&team->caller_cpu, running_cpu(), __ATOMIC_RELAXED);
    uint32_t threads = requested < page->running + 1 ? requested : page->running + 1;
    __atomic_store_n(&team->threads, threads, __ATOMIC_RELAXED);
    if (threads > 1) return team;
    return_team(team, false);
    return NULL;
}

static uint64_t last_end_ns; /* when the last call that may be shared ended */

MAVCG_PRIVATE struct blas_team *take_polling_team(void) {
    if (requested_threads() == 1) return NULL;
    const uint64_t end = __atomic_load_n(&last_end_ns, __ATOMIC_RELAXED);
    if (!end || now_ns() - end > (uint64_t)SPIN_US * 1000) return NULL;
    struct blas_team *team = take_team();
    if (!team || team->spin_ns) return team;
    return_team(team, false); /* more threads than CPUs: threads do not poll */
    return NULL;
}

MAVCG_PRIVATE void return_team(struct blas_team *team, bool may_share) {
    if (team) __atomic_store_n(&team->page->owner, 0, __ATOMIC_RELEASE);
    if (may_share && requested_threads() > 1) __atomic_store_n(&last_end_ns, now_ns(), __ATOMIC_RELAXED);
}
