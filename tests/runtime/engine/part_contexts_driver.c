/* Runs of a subgraph by several threads of a process that forks: children run it too, and end. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "part_contexts.h"

enum { THREADS = 3, FORKS = 40, CHILD_SECONDS = 100 };

struct counted {
    uint32_t users;
};

static uint32_t made, destroyed, stop, faults;

static int create(const mavcg_options *options, void **context) {
    (void)options;
    struct counted *counted = calloc(1, sizeof *counted);
    if (!counted) return MAVCG_ERROR_MEMORY;
    __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
    *context = counted;
    return MAVCG_OK;
}

static void destroy(void *context) {
    destroyed++;
    free(context);
}

static int run(void *context, const void *const *inputs, void *const *outputs) {
    (void)inputs;
    (void)outputs;
    struct counted *counted = context;
    if (__atomic_fetch_add(&counted->users, 1, __ATOMIC_SEQ_CST)) __atomic_add_fetch(&faults, 1, __ATOMIC_RELAXED);
    if (rand_r(&(unsigned){(unsigned)(uintptr_t)&counted}) & 1) sched_yield();
    __atomic_fetch_sub(&counted->users, 1, __ATOMIC_SEQ_CST);
    return MAVCG_OK;
}

/* Refuses a length of 0, as a context of bounded dimensions does; nobody else has the context meanwhile. */
static int set_shape(void *context, const int64_t *const *dims) {
    struct counted *counted = context;
    if (__atomic_load_n(&counted->users, __ATOMIC_SEQ_CST)) __atomic_add_fetch(&faults, 1, __ATOMIC_RELAXED);
    return dims[0][0] ? MAVCG_OK : MAVCG_ERROR_SIZE;
}

static const mavcg_model_table table = {
    .create = create, .destroy = destroy, .run = run, .set_shape = set_shape, .dimension_count = 1};
static struct part_contexts contexts;

/* Run the subgraph once, after lengths that it refuses, which must leave its context to others. */
static int run_part(void) {
    const int64_t none[] = {0}, some[] = {3}, *no_dims[] = {none}, *dims[] = {some};
    struct pooled_context *taken;
    if (take_context(&contexts, no_dims, &taken) != MAVCG_ERROR_SIZE) return 1;
    return take_context(&contexts, dims, &taken) || run_taken(&contexts, taken, NULL, NULL);
}

static void *run_until_stopped(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) run_part();
    return NULL;
}

static int in_child(void) {
    alarm(CHILD_SECONDS); /* a child that waits for a lock of the parent's threads is ended, which the parent sees */
    for (int i = 0; i < 4; i++)
        if (run_part()) return 2;
    destroy_contexts(&contexts);
    return faults ? 3 : 0;
}

int main(void) {
    pthread_t threads[THREADS];
    if (create_contexts(&contexts, &table, 1, true)) return 1;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, run_until_stopped, NULL)) return 1;
    int failed = 0;
    for (int i = 0; i < FORKS && !failed; i++) {
        pid_t child = fork();
        if (!child) _exit(in_child());
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status) failed = 1;
        if (run_part()) failed = 1;
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    destroy_contexts(&contexts);
    if (made != destroyed) faults++;
    printf("%s, %u faults, %s\n", failed ? "a child did not end well" : "ok", faults,
           made <= 4 * (THREADS + 1) ? "few contexts" : "many contexts");
    return 0;
}
