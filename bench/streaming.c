/* A loop that reads memory along several runs at once, with one thread or two, in bursts: bench/streaming.py. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
typedef float vector __attribute__((vector_size(32)));
struct burst {
    const char *place;
    uint64_t bytes;
    int streams, number, cpu;
};
static struct burst now;
static atomic_int turn, done;
static volatile float sink;
static void look(const char *place, uint64_t bytes, int streams) {
    vector sums[4] = {{0}};
    uint64_t part = bytes / streams;
    for (uint64_t at = 0; at < part; at += 128)
        for (int stream = 0; stream < streams; stream++)
            for (int i = 0; i < 4; i++) sums[i] += *(const vector *)(place + stream * part + at + 32 * i);
    sums[0] += sums[1] + sums[2] + sums[3];
    sink = sums[0][0] + sums[0][7];
}
static void *second(void *unused) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(now.cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
    for (int number = 1; number <= now.number; number++) {
        while (atomic_load(&turn) != number) {}
        look(now.place, now.bytes, now.streams);
        atomic_store(&done, number);
    }
    return unused;
}
/* ns of each of `number` bursts, one after the other from `place` on; the second half of each is the other thread's. */
int bursts(const char *place, uint64_t bytes, int streams, int threads, int number, int cpu, double *ns) {
    struct timespec from, to;
    pthread_t thread;
    now = (struct burst){place, bytes / threads, streams, number, cpu};
    atomic_store(&turn, 0);
    atomic_store(&done, 0);
    if (threads > 1 && pthread_create(&thread, 0, second, 0)) return 1;
    for (int i = 1; i <= number; i++, place += bytes) {
        now.place = place + bytes / threads;
        clock_gettime(CLOCK_MONOTONIC, &from);
        atomic_store(&turn, i);
        look(place, bytes / threads, streams);
        while (threads > 1 && atomic_load(&done) != i) {}
        clock_gettime(CLOCK_MONOTONIC, &to);
        *ns++ = (to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec);
    }
    return threads > 1 ? pthread_join(thread, 0) : 0;
}
