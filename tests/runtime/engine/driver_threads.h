/* Where a context's threads run, what they are called, and what they do between runs. */
#ifndef DRIVER_THREADS_H
#define DRIVER_THREADS_H

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "driver_runs.h"
#include "exercise.h"
#include "need.h"

static void run_on(pid_t thread, int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(thread, sizeof set, &set)) perror("sched_setaffinity"), exit(77);
}

/* The version of every row on CPU 0 and CPU 1, by a context without threads of its own. */
static int switching(void) {
    struct arrays a;
    exercise_context *context = made(1, 0);
    for (int i = 0; i < 20; i++) {
        run_on(0, i % 2);
        fill(&a, 1, 0);
        NEED(exercise_run(context, a.inputs, a.outputs) == MAVCG_OK);
        check(&a);
        for (int row = 0; row < ROWS; row++) NEED(a.who[row] == 2 + i % 2);
    }
    exercise_destroy(context);
    return 0;
}

static int moving;

static void *move(void *argument) {
    pid_t thread = *(pid_t *)argument;
    for (int i = 0; __atomic_load_n(&moving, __ATOMIC_RELAXED); i++) {
        run_on(thread, i % 2);
        struct timespec time = {0, 20000};
        nanosleep(&time, NULL);
    }
    return NULL;
}

/* The running thread is moved to and fro: some run must have rows by both versions, and all are right. */
static int migrating(void) {
    struct arrays a;
    pthread_t handle;
    pid_t self = (pid_t)syscall(SYS_gettid);
    int mixed = 0;
    exercise_context *context = made(1, 0);
    moving = 1;
    NEED(!pthread_create(&handle, NULL, move, &self));
    for (int i = 0; i < 20000 && (mixed < 5 || i < 200); i++) {
        int seen = 0;
        fill(&a, (unsigned)i, 0);
        NEED(exercise_run(context, a.inputs, a.outputs) == MAVCG_OK);
        check(&a);
        for (int row = 0; row < ROWS; row++) seen |= 1 << a.who[row];
        mixed += seen == (1 << 2 | 1 << 3);
    }
    __atomic_store_n(&moving, 0, __ATOMIC_RELAXED);
    pthread_join(handle, NULL);
    NEED(mixed >= 5);
    exercise_destroy(context);
    return 0;
}

/* Prints the versions that ran. */
static int print_who(int threads) {
    struct arrays a;
    unsigned seen = 0;
    exercise_context *context = made(threads, 0);
    fill(&a, 1, 0);
    NEED(exercise_run(context, a.inputs, a.outputs) == MAVCG_OK);
    check(&a);
    for (int row = 0; row < ROWS; row++) seen |= 1u << a.who[row];
    for (int id = 0; id < 32; id++)
        if (seen >> id & 1) printf("%d\n", id);
    exercise_destroy(context);
    return 0;
}

#if defined(__GLIBC__) && !defined(SANITIZED)
/* After the first run no memory is asked for. */
static int quiet(int threads) {
    exercise_context *context = made(threads, 0);
    run_many(context, 2, 1);
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    struct arrays a;
    fill(&a, 1, 0);
    for (int i = 0; i < 100; i++) NEED(exercise_run(context, a.inputs, a.outputs) == MAVCG_OK);
    NEED(mallinfo2().uordblks + mallinfo2().hblkhd == before);
    exercise_destroy(context);
    return 0;
}
#endif

#ifdef ONE_NUMBER
/* Every process has the same number, as parent and child of two PID namespaces may have. */
pid_t one_number(void);
pid_t one_number(void) { return 7; }
#endif

/* Calls visit with the name and the state letter of each thread of this process. */
static void each_thread(void (*visit)(const char *name, char state)) {
    DIR *folder = opendir("/proc/self/task");
    NEED(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[300], name[64], state;
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", entry->d_name);
        FILE *file = fopen(path, "r");
        NEED(file && fscanf(file, "%*d (%63[^)]) %c", name, &state) == 2);
        fclose(file);
        visit(name, state);
    }
    closedir(folder);
}

static void print_name(const char *name, char state) { (void)state, printf("%s\n", name); }

static int named;

static void count_named(const char *name, char state) { (void)state, named += !strncmp(name, "mavcg-", 6); }

/* Prints the names of all threads while a context has some. A thread names itself once it runs, which the first run of the
 * context does not wait for. */
static int names(int threads) {
    exercise_context *context = made(threads, 0);
    run_many(context, 1, 1);
    for (int i = 0; i < 10000; i++) {
        named = 0;
        each_thread(count_named);
        if (named == threads - 1) break;
        usleep(1000);
    }
    each_thread(print_name);
    exercise_destroy(context);
    return 0;
}

#endif
