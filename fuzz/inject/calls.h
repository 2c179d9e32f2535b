/* Force-included (-include) into the product's C: its calls of the system go through functions that may fail on purpose.
 * What is to fail is decided by mavcg_inject_error of the program that loads the library; without it nothing fails. */
#ifndef MAVCG_INJECT_CALLS_H
#define MAVCG_INJECT_CALLS_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum inject_call {
    INJECT_ALLOCATE, /* malloc, calloc, posix_memalign */
    INJECT_MAP,
    INJECT_ADVISE,
    INJECT_PROTECT,
    INJECT_THREAD,
    INJECT_ATTRIBUTE, /* pthread_attr_init and stack sizes */
    INJECT_LOCK,      /* pthread_mutex_init, pthread_cond_init */
    INJECT_OPEN,
    INJECT_READ,
    INJECT_WAIT, /* futex */
    INJECT_WAKE, /* futex, which fails only where waiting does */
    INJECT_GET_AFFINITY,
    INJECT_SET_AFFINITY,
    INJECT_CALLS
};

/* The errno with which this call fails, or 0. */
extern int mavcg_inject_error(enum inject_call call) __attribute__((weak, visibility("default")));

static inline int inject(enum inject_call call) { return mavcg_inject_error ? mavcg_inject_error(call) : 0; }

static inline int inject_failed(enum inject_call call) {
    int error = inject(call);
    if (error) errno = error;
    return error;
}

static inline long inject_syscall(long number, ...) {
    va_list list;
    long a[6];
    va_start(list, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_futex && inject_failed((a[1] & 127) == 0 ? INJECT_WAIT : INJECT_WAKE)) return -1;
    if (number == SYS_sched_getaffinity && inject_failed(INJECT_GET_AFFINITY)) return -1;
    if (number == SYS_sched_setaffinity && inject_failed(INJECT_SET_AFFINITY)) return -1;
    return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static inline int inject_memalign(void **place, size_t align, size_t bytes) {
    int error = inject(INJECT_ALLOCATE);
    return error ? error : posix_memalign(place, align, bytes);
}

static inline int inject_thread(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                                void *argument) {
    int error = inject(INJECT_THREAD);
    return error ? error : pthread_create(thread, attributes, start, argument);
}

#define malloc(bytes) (inject_failed(INJECT_ALLOCATE) ? NULL : malloc(bytes))
#define calloc(count, bytes) (inject_failed(INJECT_ALLOCATE) ? NULL : calloc(count, bytes))
#define posix_memalign(place, align, bytes) inject_memalign(place, align, bytes)
#define mmap(...) (inject_failed(INJECT_MAP) ? MAP_FAILED : mmap(__VA_ARGS__))
#define madvise(...) (inject_failed(INJECT_ADVISE) ? -1 : madvise(__VA_ARGS__))
#define mprotect(...) (inject_failed(INJECT_PROTECT) ? -1 : mprotect(__VA_ARGS__))
#define pthread_create(...) inject_thread(__VA_ARGS__)
#define pthread_attr_init(attributes) (inject(INJECT_ATTRIBUTE) ? ENOMEM : pthread_attr_init(attributes))
#define pthread_attr_setstacksize(...) (inject(INJECT_ATTRIBUTE) ? EINVAL : pthread_attr_setstacksize(__VA_ARGS__))
#define pthread_mutex_init(...) (inject(INJECT_LOCK) ? ENOMEM : pthread_mutex_init(__VA_ARGS__))
#define pthread_cond_init(...) (inject(INJECT_LOCK) ? ENOMEM : pthread_cond_init(__VA_ARGS__))
#define syscall(...) inject_syscall(__VA_ARGS__, 0L, 0L, 0L, 0L, 0L, 0L)
#ifdef INJECT_FILES /* not where a device has functions of these names */
#define open(...) (inject_failed(INJECT_OPEN) ? -1 : open(__VA_ARGS__))
#define read(...) (inject_failed(INJECT_READ) ? -1 : read(__VA_ARGS__))
#endif
#define fopen(...) (inject_failed(INJECT_OPEN) ? NULL : fopen(__VA_ARGS__))
#define fread(...) (inject_failed(INJECT_READ) ? 0 : fread(__VA_ARGS__))

#endif
