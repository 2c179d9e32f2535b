/* Threads that share the rows of each stage as a library's do (runtime/csrc/engine_chunk.c, for cores alike): each chunk is
 * a quarter of a thread's share of the rows that are left, and a stage begins when all rows of the previous one are done. */

#include <pthread.h>
#include <stdatomic.h>

enum { MOST_THREADS = 64, CHUNK_DIVISOR = 4, SPINS = 2000 };

static struct {
    int threads; /* including the one that runs main */
    int cpus[MOST_THREADS];
    void *scratch[MOST_THREADS];
    const struct stage *stage;
    void **args;
    atomic_long next;           /* the first row that no thread has taken */
    atomic_uint begun, at_work; /* stages so far; threads that have not finished this one */
} team = {.threads = 1, .cpus = {NO_CPU}};

static void compute_rows(int thread) {
    long rows = team.stage->rows;
    for (;;) {
        long first = atomic_load_explicit(&team.next, memory_order_relaxed);
        if (first >= rows) return;
        long part = (rows - first) / ((long)team.threads * CHUNK_DIVISOR), count = part > 1 ? part : 1;
        if (!atomic_compare_exchange_weak(&team.next, &first, first + count)) continue;
        team.stage->run(team.args, first, first + count, team.scratch[thread]);
    }
}

static void pause_for(int *spins) {
    if (++*spins > SPINS) sched_yield(); /* the core is shared: let the other thread finish */
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void *work(void *of) {
    int thread = (int)(intptr_t)of;
    if (!pin(team.cpus[thread])) return NULL; /* cannot happen: start_team has tried it before */
    for (unsigned seen = 0;;) {
        int spins = 0;
        while (atomic_load_explicit(&team.begun, memory_order_acquire) == seen) pause_for(&spins);
        seen++;
        compute_rows(thread);
        atomic_fetch_sub_explicit(&team.at_work, 1, memory_order_release);
    }
}

/* Pin the calling thread to the first CPU and start one more thread for each other CPU. Returns the CPU that failed, or
 * NO_CPU. */
static int start_team(void) {
    for (int i = team.threads - 1; i >= 0; i--) /* the first one last: the thread stays there */
        if (team.cpus[i] != NO_CPU && !pin(team.cpus[i])) return team.cpus[i];
    for (int i = 1; i < team.threads; i++) {
        pthread_t thread;
        errno = pthread_create(&thread, NULL, work, (void *)(intptr_t)i);
        if (errno) return team.cpus[i];
    }
    return NO_CPU;
}

static void run_stage(const struct stage *stage, void **args) {
    if (team.threads == 1) {
        stage->run(args, 0, stage->rows, team.scratch[0]);
        return;
    }
    int spins = 0;
    team.stage = stage, team.args = args;
    atomic_store_explicit(&team.next, 0, memory_order_relaxed);
    atomic_store_explicit(&team.at_work, (unsigned)team.threads - 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&team.begun, 1, memory_order_release);
    compute_rows(0);
    while (atomic_load_explicit(&team.at_work, memory_order_acquire)) pause_for(&spins);
}
