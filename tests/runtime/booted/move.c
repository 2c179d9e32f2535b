/* Moves threads between CPUs of several kinds, and suspends them, while they compute. The first argument says how. */
#include "libraries.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define GROUP "/sys/fs/cgroup/work"

static int ending;
static uint64_t total_bits, model_bits;
static pid_t workers[THREADS];

static void nap(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&time, &time) && errno == EINTR) continue;
}

/* Thread 0 has a context of one thread, the others of four; all call the program's function between runs. */
static void *work(void *argument) {
    uint64_t done = 0;
    struct run own = made(argument ? 4 : 1);
    __atomic_store_n(&workers[(uintptr_t)argument], (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    for (; !__atomic_load_n(&ending, __ATOMIC_RELAXED); done++) {
        for (int i = 0; i < 20; i++) NEED(bits_of_total() == total_bits);
        NEED(bits_of_model(&own) == model_bits);
    }
    model->destroy(own.context);
    return (void *)(uintptr_t)done;
}

static void start(pthread_t *threads) {
    open_both();
    struct run one = made(1);
    total_bits = bits_of_total(), model_bits = bits_of_model(&one);
    for (uintptr_t i = 0; i < THREADS; i++) NEED(!pthread_create(&threads[i], NULL, work, (void *)i));
    for (int i = 0; i < THREADS; i++)
        while (!__atomic_load_n(&workers[i], __ATOMIC_ACQUIRE)) nap(1);
}

static int finish(pthread_t *threads, const char *what, long count) {
    __atomic_store_n(&ending, 1, __ATOMIC_RELAXED);
    printf("%s %ld\n", what, count);
    for (int i = 0; i < THREADS; i++) {
        void *done;
        NEED(!pthread_join(threads[i], &done) && done);
        printf("thread %d did %d\n", i, (int)(uintptr_t)done);
    }
    printf("bits %016llx %016llx\n", (unsigned long long)total_bits, (unsigned long long)model_bits);
    return 0;
}

/* Another thread's affinity is set to one CPU: the kernel moves it in the middle of whatever it does. */
static int migrate(long count) {
    pthread_t threads[THREADS];
    int cpus = (int)sysconf(_SC_NPROCESSORS_CONF);
    uint32_t seed = 3;
    start(threads);
    int place[THREADS] = {0};
    for (long i = 0; i < count; i++) {
        int thread = (int)(i % THREADS);
        cpu_set_t set;
        CPU_ZERO(&set);
        place[thread] = (place[thread] + 1 + (int)((seed = seed * 1664525u + 1013904223u) >> 16) % (cpus - 1)) % cpus;
        CPU_SET(place[thread], &set);
        NEED(!sched_setaffinity(workers[thread], sizeof set, &set));
    }
    return finish(threads, "moved", count);
}

static void put(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    if (!file) perror(path);
    NEED(file && fputs(text, file) >= 0 && !fclose(file));
}

static void enter_group(void) {
    char number[16];
    put("/sys/fs/cgroup/cgroup.subtree_control", "+cpuset");
    NEED(!mkdir(GROUP, 0755) || errno == EEXIST);
    snprintf(number, sizeof number, "%d", (int)getpid());
    put(GROUP "/cgroup.procs", number);
}

/* The control group's CPUs change: one kind, another, a mix, one CPU, all. */
static int cpuset(long rounds) {
    static const char *const sets[] = {"0-3", "4-5", "6-7", "1,5,7", "3", "0-7"};
    pthread_t threads[THREADS];
    long count = 0;
    enter_group();
    start(threads);
    for (long round = 0; round < rounds; round++)
        for (size_t i = 0; i < sizeof sets / sizeof *sets; i++, count++) {
            put(GROUP "/cpuset.cpus", sets[i]);
            nap(20);
            struct run made_here = made(0); /* as many threads as these CPUs suggest */
            NEED(bits_of_model(&made_here) == model_bits);
            model->destroy(made_here.context);
        }
    return finish(threads, "sets", count);
}

/* A child's group is frozen and thawed in the middle of its runs, and its threads go to other CPUs meanwhile. */
static int freeze(long count) {
    pid_t child = fork();
    if (!child) {
        pthread_t threads[THREADS];
        enter_group();
        start(threads);
        nap(count * 60);
        _exit(finish(threads, "frozen", count));
    }
    nap(1000);
    for (long i = 0; i < count; i++) {
        put(GROUP "/cgroup.freeze", "1");
        put(GROUP "/cpuset.cpus", i % 2 ? "0-3" : "4-7");
        nap(15);
        put(GROUP "/cgroup.freeze", "0");
        nap(30);
    }
    int status;
    NEED(waitpid(child, &status, 0) == child && !status);
    return 0;
}

static void wait_in_handler(int number) {
    (void)number;
    int kept = errno;
    nap(5);
    errno = kept;
}

/* One thread is stopped in a signal's handler, in the middle of a run whose other threads go on. */
static int suspend(long count) {
    pthread_t threads[THREADS];
    struct sigaction action = {.sa_handler = wait_in_handler, .sa_flags = SA_RESTART};
    NEED(!sigaction(SIGUSR1, &action, NULL));
    start(threads);
    for (long i = 0; i < count; i++) {
        NEED(!pthread_kill(threads[i % THREADS], SIGUSR1));
        nap(3);
    }
    return finish(threads, "suspended", count);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    long number = argc > 2 ? atol(argv[2]) : 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(what, "migrate")) return migrate(number);
    if (!strcmp(what, "cpuset")) return cpuset(number);
    if (!strcmp(what, "freeze")) return freeze(number);
    if (!strcmp(what, "suspend")) return suspend(number);
    if (!strcmp(what, "frequency")) { /* what this machine offers for changes of frequency */
        printf("cpufreq %d\n", !access("/sys/devices/system/cpu/cpu0/cpufreq", F_OK));
        return 0;
    }
    return 2;
}
