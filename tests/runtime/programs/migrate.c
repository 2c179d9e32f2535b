/* A thread that is flipped between CPUs 0 and 1 while it works, other threads working too. Each call sums 64 floats in
 * one order; prints how often each version ran and how many results were not those of the plain function. */
#include <pthread.h>

#include "versioned.h"

enum { WORKERS = 2, ROUNDS = 64 };

static _Thread_local uint64_t ran[VERSIONS];

static inline float sum(const float *x) {
    float total = 0;
    for (int i = 0; i < ROUNDS; i++) total = total * 0.5f + x[i];
    return total;
}

#define VERSION(id)                                                   \
    __attribute__((noinline)) static float sum_##id(const float *x) { \
        ran[id]++;                                                    \
        return sum(x);                                                \
    }
VERSION(1)
VERSION(2)
VERSION(3)
static float sum_slow(const float *x);
static void *const sum_versions[VERSIONS] = {(void *)sum_slow, (void *)sum_1, (void *)sum_2, (void *)sum_3};
static uint64_t sum_runs[VERSIONS];
static struct mavcg_function sum_desc = {"sum", sum_versions, sum_runs, 0};
static float sum_slow(const float *x) { return ((float (*)(const float *))select_for_set(&sum_desc))(x); }
static float dispatched_sum(const float *x) { return ((float (*)(const float *))version_for_set(&sum_desc))(x); }

static pthread_mutex_t goes_on = PTHREAD_MUTEX_INITIALIZER; /* held until the workers are to end */
static uint64_t wrong_in[WORKERS], calls_in[WORKERS];

static uint64_t check(unsigned seed) {
    float x[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) x[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-20f;
    float got = dispatched_sum(x), expected = sum(x);
    return memcmp(&got, &expected, sizeof got) != 0;
}

static void *work(void *argument) {
    int worker = *(int *)argument;
    for (unsigned seed = (unsigned)worker; pthread_mutex_trylock(&goes_on); seed++, calls_in[worker]++)
        wrong_in[worker] += check(seed);
    pthread_mutex_unlock(&goes_on);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[WORKERS];
    int numbers[WORKERS], flips = argc > 1 ? atoi(argv[1]) : 10000;
    uint64_t wrong = 0, misplaced = 0;
    pthread_mutex_lock(&goes_on);
    for (int w = 0; w < WORKERS; w++) numbers[w] = w;
    for (int w = 0; w < WORKERS; w++) pthread_create(&threads[w], NULL, work, &numbers[w]);
    for (int flip = 0; flip < flips; flip++) {
        run_on(flip & 1);
        uint64_t before = ran[2 + (flip & 1)];
        for (int i = 0; i < 3; i++) wrong += check((unsigned)(flip * 3 + i));
        misplaced += ran[2 + (flip & 1)] != before + 3; /* pinned: nobody can move us in between */
    }
    pthread_mutex_unlock(&goes_on);
    for (int w = 0; w < WORKERS; w++) {
        pthread_join(threads[w], NULL);
        wrong += wrong_in[w];
    }
    printf("generic %lu a %lu b %lu wrong %lu misplaced %lu workers %s\n", (unsigned long)ran[1], (unsigned long)ran[2],
           (unsigned long)ran[3], (unsigned long)wrong, (unsigned long)misplaced,
           calls_in[0] && calls_in[1] ? "worked" : "idle");
    return 0;
}
