/* Uses a program library and a model library on a booted kernel. The first argument says what to do, see main. */
#include "libraries.h"

extern const ptrdiff_t __rseq_offset;
extern const unsigned __rseq_size;

static int set_online(int cpu, int on) {
    char path[64];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/online", cpu);
    FILE *file = fopen(path, "w");
    if (!file) return -1;
    int failed = fprintf(file, "%d", on) < 0;
    return fclose(file) || failed ? -1 : 0;
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
