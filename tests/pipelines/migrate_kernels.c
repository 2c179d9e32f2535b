/* The versioned kernels of edge_app under migration: one thread flips between CPUs 0 and 1 with every call, then another
 * moves it in mid-call; two more work on whichever CPU they are on. Every result is compared with that of the plain
 * kernels, which are linked in as plain_*. Prints how often it was moved, the calls, and how many results were wrong.
 * What threads share is under a mutex, so that a race checker has nothing to say about the test itself. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ops/ops.h"

void plain_gemm_f32(int, int, int, const float *, const float *, const float *, float, float, float *);
void plain_gemm_s8(int, int, int, const int8_t *, const int8_t *, const int32_t *, const Requantize *, int8_t *);
void plain_depthwise_f32(int, int, int, int, const float *, const float *, const float *, float, float, float *);

enum { ROWS = 13, COLS = 24, DEPTH = 37, HEIGHT = 9, WIDTH = 7, CHANNELS = 12, HELPERS = 2, KERNELS = 3 };

/* Inputs and results of one thread. */
typedef struct {
    float a[ROWS * DEPTH], b[DEPTH * COLS], bias[COLS], image[HEIGHT * WIDTH * CHANNELS], filter[9 * CHANNELS];
    int8_t a8[ROWS * DEPTH], b8[DEPTH * COLS];
    int32_t bias32[COLS];
    float wanted_gemm[ROWS * COLS], wanted_depthwise[HEIGHT * WIDTH * CHANNELS];
    int8_t wanted_s8[ROWS * COLS];
    union {
        float gemm[ROWS * COLS], depthwise[HEIGHT * WIDTH * CHANNELS];
        int8_t s8[ROWS * COLS];
    } got;
} Work;

static const Requantize requantize_by = {-5, 3, 1500000000, -6, -128, 127};

/* A thread and what it tells others, under a mutex of its own: no thread waits for another's that was put aside. */
typedef struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t called;
    pid_t id;
    unsigned seed;
    unsigned long calls, wrong;
    int flips; /* how often it is to move itself to the other CPU before a call; -1: it is a helper, and stays */
    int stop;
} Worker;

static Work *new_work(unsigned seed) {
    Work *w = malloc(sizeof *w);
    if (!w) abort();
#define FILL(array, scale)                                          \
    for (size_t i = 0; i < sizeof w->array / sizeof *w->array; i++) \
    w->array[i] = (scale) * ((int)((seed = seed * 1664525u + 1013904223u) >> 16) - 32768)
    FILL(a, 0x1p-15f);
    FILL(b, 0x1.8p-14f);
    FILL(bias, 0x1p-13f);
    FILL(image, 0x1p-15f);
    FILL(filter, 0x1p-16f);
    FILL(bias32, 1);
    for (size_t i = 0; i < sizeof w->a8; i++) w->a8[i] = (int8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
    for (size_t i = 0; i < sizeof w->b8; i++) w->b8[i] = (int8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
    plain_gemm_f32(ROWS, COLS, DEPTH, w->a, w->b, w->bias, -3, 3, w->wanted_gemm);
    plain_gemm_s8(ROWS, COLS, DEPTH, w->a8, w->b8, w->bias32, &requantize_by, w->wanted_s8);
    plain_depthwise_f32(HEIGHT, WIDTH, CHANNELS, 1, w->image, w->filter, w->bias, 0, 6, w->wanted_depthwise);
    return w;
}

static int is_wrong(Work *w, unsigned long call) {
    memset(&w->got, 0x5a, sizeof w->got);
    switch (call % KERNELS) {
    case 0:
        gemm_f32(ROWS, COLS, DEPTH, w->a, w->b, w->bias, -3, 3, w->got.gemm);
        return memcmp(w->got.gemm, w->wanted_gemm, sizeof w->wanted_gemm) != 0;
    case 1:
        gemm_s8(ROWS, COLS, DEPTH, w->a8, w->b8, w->bias32, &requantize_by, w->got.s8);
        return memcmp(w->got.s8, w->wanted_s8, sizeof w->wanted_s8) != 0;
    default:
        depthwise_f32(HEIGHT, WIDTH, CHANNELS, 1, w->image, w->filter, w->bias, 0, 6, w->got.depthwise);
        return memcmp(w->got.depthwise, w->wanted_depthwise, sizeof w->wanted_depthwise) != 0;
    }
}

static int move_to(pid_t thread, int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(thread, sizeof one, &one);
}

static void *work(void *argument) {
    Worker *me = argument;
    pid_t id = (pid_t)syscall(SYS_gettid);
    int flips = me->flips;
    /* Else the moved thread waits for its turn on every CPU that it comes to. */
    if (flips < 0) setpriority(PRIO_PROCESS, (id_t)id, 19);
    Work *w = new_work(me->seed);
    int ended = 0;
    for (unsigned long call = 0; !ended; call++) {
        if ((long)call < flips && move_to(0, (int)(call & 1))) {
            perror("sched_setaffinity");
            exit(77);
        }
        int bad = is_wrong(w, call);
        pthread_mutex_lock(&me->lock);
        me->id = id;
        me->calls++;
        me->wrong += (unsigned long)bad;
        ended = me->stop;
        pthread_cond_signal(&me->called);
        pthread_mutex_unlock(&me->lock);
    }
    free(w);
    return NULL;
}

/* Wait until a thread has called that often in all; its id. */
static pid_t wait_for_calls(Worker *of, unsigned long all) {
    pthread_mutex_lock(&of->lock);
    while (of->calls < all) pthread_cond_wait(&of->called, &of->lock);
    pid_t id = of->id;
    pthread_mutex_unlock(&of->lock);
    return id;
}

int main(int argc, char **argv) {
    static Worker workers[HELPERS + 1];
    int flips = argc > 1 ? atoi(argv[1]) : 10000, moves = flips / 20;
    for (int i = 0; i <= HELPERS; i++) {
        pthread_mutex_init(&workers[i].lock, NULL);
        pthread_cond_init(&workers[i].called, NULL);
        workers[i].seed = (unsigned)i + 1;
        workers[i].flips = i ? -1 : flips;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i])) abort();
    }
    unsigned long calls = (unsigned long)flips + 1, others = 0, wrong = 0;
    pid_t moved = wait_for_calls(&workers[0], calls);
    for (int move = 0; move < moves; move++) {
        if (move_to(moved, move & 1)) abort();
        wait_for_calls(&workers[0], ++calls); /* the call that the move cut in two */
    }
    for (int i = 0; i <= HELPERS; i++) {
        pthread_mutex_lock(&workers[i].lock);
        workers[i].stop = 1;
        pthread_mutex_unlock(&workers[i].lock);
        pthread_join(workers[i].thread, NULL);
        wrong += workers[i].wrong;
        others += i ? workers[i].calls : 0;
    }
    printf("flips %d moves %d calls %lu others %lu wrong %lu\n", flips, moves, workers[0].calls, others, wrong);
    return 0;
}
