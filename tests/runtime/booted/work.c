/* Uses a program library and a model library on a booted kernel. The first argument says what to do, see main. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine_api.h"

enum { LENGTH = 1000, THREADS = 3, MOST_TENSORS = 8 };

#define NEED(condition)                                                    \
    do                                                                     \
        if (!(condition)) {                                                \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            fflush(stdout);                                                \
            _exit(3);                                                      \
        }                                                                  \
    while (0)

extern const ptrdiff_t __rseq_offset;
extern const unsigned __rseq_size;

static float (*total)(const float *x, int n);
static const mavcg_model_table *model;

static void *opened(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) printf("%s\n", dlerror());
    NEED(library);
    return library;
}

static int stay_on(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set);
}

enum { TRUE_CPU = 2 };

/* On a CPU whose files say what its registers say: the selector takes files that contradict these for another machine's. */
static void open_both(void) {
    const mavcg_model_table *(*api)(void);
    cpu_set_t before;
    NEED(!sched_getaffinity(0, sizeof before, &before));
    stay_on(TRUE_CPU);
    *(void **)&total = dlsym(opened("/libtotal.so"), "total");
    *(void **)&api = dlsym(opened("/libmodel.so"), "mavcg_model_api");
    NEED(total && api);
    model = api();
    sched_setaffinity(0, sizeof before, &before);
}

static int set_online(int cpu, int on) {
    char path[64];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/online", cpu);
    FILE *file = fopen(path, "w");
    if (!file) return -1;
    int failed = fprintf(file, "%d", on) < 0;
    return fclose(file) || failed ? -1 : 0;
}

static uint64_t mixed(uint64_t hash, const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001B3u; /* FNV-1a */
    return hash;
}

static uint64_t bits_of_total(void) {
    float x[LENGTH], sum;
    uint32_t seed = 1;
    for (int i = 0; i < LENGTH; i++) x[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-20f;
    sum = total(x, LENGTH);
    return mixed(0xCBF29CE484222325u, &sum, sizeof sum);
}

struct run {
    void *context, *places[2 * MOST_TENSORS];
};

static struct run made(int threads) {
    struct run run = {0};
    mavcg_options options = {threads, 0, {0, 0}};
    uint32_t seed = 7;
    NEED(model->input_count <= MOST_TENSORS && model->output_count <= MOST_TENSORS);
    NEED(model->create(&options, &run.context) == MAVCG_OK);
    for (uint32_t i = 0; i < model->input_count + model->output_count; i++) {
        int in = i < model->input_count;
        size_t bytes = in ? model->inputs[i].bytes : model->outputs[i - model->input_count].bytes;
        float *values = run.places[i] = calloc(1, bytes + 1);
        NEED(values);
        for (size_t at = 0; in && at < bytes / sizeof *values; at++)
            values[at] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-24f;
    }
    return run;
}

static uint64_t bits_of_model(struct run *run) {
    uint64_t hash = 0xCBF29CE484222325u;
    int status = model->run(run->context, (const void *const *)run->places, run->places + model->input_count);
    if (status) printf("run: %s\n", model->error_text(status));
    NEED(!status);
    for (uint32_t o = 0; o < model->output_count; o++)
        hash = mixed(hash, run->places[model->input_count + o], model->outputs[o].bytes);
    return hash;
}

/* What the kernel says of its CPUs, and libc of rseq. */
static int facts(void) {
    int cpus = (int)sysconf(_SC_NPROCESSORS_CONF);
    printf("cpus %d cpuid %d rseq %d\n", cpus, (int)(getauxval(AT_HWCAP) >> 11 & 1), __rseq_size > 0);
    for (int cpu = 0; cpu < cpus; cpu++) {
        unsigned asked = 99;
        NEED(!stay_on(cpu));
        NEED(!syscall(SYS_getcpu, &asked, NULL, NULL) && asked == (unsigned)cpu);
        const char *rseq = (const char *)__builtin_thread_pointer() + __rseq_offset;
        NEED(*(const volatile uint32_t *)(rseq + 4) == (uint32_t)cpu);
        unsigned long midr;
        __asm__ volatile("mrs %0, MIDR_EL1" : "=r"(midr)); /* emulated by the kernel */
        printf("cpu%d mrs 0x%lx\n", cpu, midr);
    }
    return 0;
}

static int on_cpu(int cpu) {
    open_both();
    NEED(!stay_on(cpu));
    struct run one = made(1);
    printf("bits %016llx %016llx\n", (unsigned long long)bits_of_total(), (unsigned long long)bits_of_model(&one));
    return 0;
}

/* A CPU that is off when the libraries are loaded, and comes later. */
static int late_cpu(int cpu) {
    NEED(!set_online(cpu, 0));
    NEED(stay_on(cpu)); /* it is really gone */
    open_both();
    uint64_t before = bits_of_total();
    NEED(!set_online(cpu, 1) && !stay_on(cpu));
    for (int i = 0; i < 5; i++) NEED(bits_of_total() == before);
    printf("late ok\n");
    return 0;
}

static int ending;
static uint64_t total_bits, model_bits;

static void *work(void *argument) {
    uint64_t done = 0;
    struct run own = made(argument ? 4 : 1);
    for (; !__atomic_load_n(&ending, __ATOMIC_RELAXED); done++) {
        NEED(bits_of_total() == total_bits);
        NEED(bits_of_model(&own) == model_bits);
    }
    model->destroy(own.context);
    return (void *)(uintptr_t)done;
}

/* Threads compute while all CPUs but the first go off and come back, again and again. */
static int hotplug(int rounds) {
    pthread_t threads[THREADS];
    int cpus = (int)sysconf(_SC_NPROCESSORS_CONF), switched = 0;
    open_both();
    struct run one = made(1);
    total_bits = bits_of_total(), model_bits = bits_of_model(&one);
    for (long i = 0; i < THREADS; i++) NEED(!pthread_create(&threads[i], NULL, work, (void *)i));
    for (int round = 0; round < rounds; round++)
        for (int on = 0; on < 2; on++)
            for (int cpu = 1; cpu < cpus; cpu++) {
                struct timespec time = {0, 20000000};
                switched += !set_online(cpu, on);
                nanosleep(&time, NULL);
            }
    __atomic_store_n(&ending, 1, __ATOMIC_RELAXED);
    printf("switched %d\n", switched);
    for (int i = 0; i < THREADS; i++) {
        void *done;
        NEED(!pthread_join(threads[i], &done) && done);
        printf("thread %d did %d\n", i, (int)(uintptr_t)done);
    }
    printf("bits %016llx %016llx\n", (unsigned long long)total_bits, (unsigned long long)model_bits);
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int number = argc > 2 ? atoi(argv[2]) : 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(240);
    if (!strcmp(what, "facts")) return facts();
    if (!strcmp(what, "on")) return on_cpu(number);
    if (!strcmp(what, "late")) return late_cpu(number);
    if (!strcmp(what, "hotplug")) return hotplug(number);
    return 2;
}
