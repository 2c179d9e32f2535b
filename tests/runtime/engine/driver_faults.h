/* Systems that refuse or pretend: each is a build of the driver by a macro that replaces functions of the engine. */
#ifndef DRIVER_FAULTS_H
#define DRIVER_FAULTS_H

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "driver_runs.h"
#include "driver_threads.h"
#include "exercise.h"
#include "need.h"

#ifdef NOTED_STACKS
/* The stacks that the engine asks for; a system that refuses to make any of a stated size. */
static int refuses;
static size_t stack_bytes[64];
static int noted;
int noted_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    if (attributes && refuses) return EINVAL;
    if (attributes) NEED(!pthread_attr_getstacksize(attributes, &stack_bytes[noted]));
    noted++;
    return pthread_create(thread, attributes, start, argument);
}

static int stacks(int refuse) {
    refuses = refuse;
    exercise_context *context = made(3, 0);
    run_many(context, 5, 1);
    exercise_destroy(context);
    for (int i = 0; i < noted; i++) printf("%zu\n", stack_bytes[i]);
    return 0;
}
#endif

#ifdef SLOW_CLOCK
/* A clock that moves on by a microsecond whenever the engine reads it. */
static uint64_t clock_reads;
int slow_clock(clockid_t clock, struct timespec *time) {
    uint64_t us = __atomic_add_fetch(&clock_reads, 1, __ATOMIC_RELAXED);
    (void)clock;
    time->tv_sec = (time_t)(us / 1000000), time->tv_nsec = (long)(us % 1000000) * 1000;
    return 0;
}

static int awake, named;
static void count_awake(const char *name, char state) {
    const int ours = !strncmp(name, "mavcg-", 6);
    named += ours;
    awake += ours && state != 'S';
}

/* Prints how often the clock was read until the context's thread sleeps after a run. */
static int spins(void) {
    exercise_context *context = made(2, 0);
    run_many(context, 1, 1);
    do {
        usleep(2000);
        awake = named = 0;
        each_thread(count_awake);
    } while (awake || !named); /* a thread has no name until it runs first */
    printf("%llu\n", (unsigned long long)clock_reads);
    exercise_destroy(context);
    exercise_destroy(made(2, 0));
    return 0;
}
#endif

#ifdef LARGE_PAGES
/* A kernel with pages of 64 KiB, which refuses advice about an address within one: the engine must not ask for that.
 * Memory that mmap returns begins at one there, but not here: advice about it passes. */
enum { LARGE_PAGE = 1 << 16, ADVICE_TO_MAP = 22 };
long large_sysconf(int name);
long large_sysconf(int name) { return name == _SC_PAGESIZE ? LARGE_PAGE : sysconf(name); }
int large_madvise(void *place, size_t bytes, int advice);
int large_madvise(void *place, size_t bytes, int advice) {
    const int of_constants = advice == ADVICE_TO_MAP || advice == MADV_DONTNEED;
    if (!of_constants || !((uintptr_t)place % LARGE_PAGE)) return madvise(place, bytes, advice);
    fprintf(stderr, "advice %d about %p, within a page\n", advice, place);
    abort();
}
#endif

#ifdef FAILING
/* The n-th allocation, or thread, is not to be had. */
static int until_failure = -1;
int failing_memalign(void **place, size_t align, size_t bytes) {
    return until_failure-- == 0 ? ENOMEM : posix_memalign(place, align, bytes);
}
void *failing_mmap(void *place, size_t bytes, int protection, int flags, int file, off_t offset);
void *failing_mmap(void *place, size_t bytes, int protection, int flags, int file, off_t offset) {
    return until_failure-- == 0 ? MAP_FAILED : mmap(place, bytes, protection, flags, file, offset);
}
void *failing_calloc(size_t count, size_t bytes) { return until_failure-- == 0 ? NULL : calloc(count, bytes); }
int failing_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    return until_failure-- == 0 ? EAGAIN : pthread_create(thread, attributes, start, argument);
}

/* A kernel that does not map pages when it is asked to. */
int older_madvise(void *place, size_t bytes, int advice);
int older_madvise(void *place, size_t bytes, int advice) {
    enum { ADVICE_MAP_READ = 22 };
    if (advice != ADVICE_MAP_READ) return madvise(place, bytes, advice);
    errno = EINVAL;
    return -1;
}

static int failures(void) {
    exercise_options options = {6, 0, {0, 0}};
    exercise_context *context;
    struct arrays a;
    for (int n = 0; n < 6; n++) {
        until_failure = n;
        NEED(exercise_create(&options, &context) == MAVCG_ERROR_MEMORY && !context);
    }
    until_failure = -1;
    context = made(6, 0);
    fill(&a, 1, 0);
    for (int n = 0; n < 5; n++) {
        until_failure = n;
        NEED(exercise_run(context, a.inputs, a.outputs) == MAVCG_ERROR_THREADS);
    }
    until_failure = -1;
    run_many(context, 10, 1);
    exercise_destroy(context);
    return 0;
}
#endif

#ifdef PRETENDING
/* A machine of 8 CPUs, as far as the engine asks; what it does about them is noted. */
static int pretended_cpus, pretended_virtual, calls, moves;
static uint64_t masks[64], moved[64]; /* of a thread by itself, of another one by the caller */
long pretended_sysconf(int name);
long pretended_sysconf(int name) {
    NEED(name == _SC_NPROCESSORS_ONLN);
    return 2;
}
uint32_t pretended_cpuid(uint32_t leaf, uint32_t subleaf, int wanted);
uint32_t pretended_cpuid(uint32_t leaf, uint32_t subleaf, int wanted) {
    uint32_t r[4];
    __asm__ volatile("cpuid" : "=a"(r[0]), "=b"(r[1]), "=c"(r[2]), "=d"(r[3]) : "a"(leaf), "c"(subleaf));
    if (leaf == 1) r[2] = (r[2] & ~(1u << 31)) | (uint32_t)pretended_virtual << 31;
    return r[wanted];
}
long pretended_syscall(long number, ...);
long pretended_syscall(long number, ...) {
    va_list list;
    long a[6];
    va_start(list, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_sched_getaffinity && pretended_cpus < 0) return -1;
    if (number == SYS_sched_getaffinity) return *(uint64_t *)a[2] = (uint64_t)pretended_cpus, 8;
    if (number == SYS_getcpu) return *(unsigned *)a[0] = 1, 0;
    if (number == SYS_sched_setaffinity && a[0]) return moved[moves++ % 64] = *(uint64_t *)a[2], 0;
    if (number == SYS_sched_setaffinity)
        return masks[__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED)] = *(uint64_t *)a[2], 0;
    return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static int by_value(const void *a, const void *b) {
    return *(const uint64_t *)a < *(const uint64_t *)b ? -1 : *(const uint64_t *)a > *(const uint64_t *)b;
}

/* Prints how many threads there are, and the masks that they give themselves, in hexadecimal. */
static int plans(int cpus, int pin) {
    pretended_cpus = cpus;
    exercise_context *context = made(0, pin ? MAVCG_PIN : 0);
    run_many(context, 3, 1);
    printf("%d", exercise_threads(context));
    exercise_destroy(context);
    qsort(masks, (size_t)calls, sizeof *masks, by_value);
    for (int i = 0; i < calls; i++) printf(" %lx", (unsigned long)masks[i]);
    printf("\n");
    return 0;
}

/* Prints what the caller does with a sleeping thread beside a wake-up: the masks that it gives it. */
static int woken(int cpus, int is_virtual) {
    pretended_cpus = cpus;
    pretended_virtual = is_virtual;
    exercise_context *context = made(2, 0);
    for (int i = 0; i < 20 && !moves; i++) {
        usleep(5000);
        run_many(context, 1, 1);
    }
    exercise_destroy(context);
    for (int i = 0; i < moves && i < 2; i++) printf("%lx ", (unsigned long)moved[i]);
    return moves % 2;
}
#endif

#ifdef OLD_CPU
uint32_t old_cpuid(uint32_t leaf, uint32_t subleaf, int wanted) {
    uint32_t r[4];
    __asm__ volatile("cpuid" : "=a"(r[0]), "=b"(r[1]), "=c"(r[2]), "=d"(r[3]) : "a"(leaf), "c"(subleaf));
    if (leaf == 7) r[1] &= ~(1u << 5); /* AVX2 */
    return r[wanted];
}

static int old_cpu(void) {
    exercise_context *context;
    NEED(exercise_create(NULL, &context) == MAVCG_ERROR_CPU && !context);
    return 0;
}
#endif

#endif
