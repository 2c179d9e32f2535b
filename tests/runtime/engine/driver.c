/* Uses the engine as a program would. The first argument says what to do; 0 and a line "ok ..." when all is well. */
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "exercise.h"
#include "need.h"

enum { LENGTH = 1000, ROWS = 96, LAYERS = 12, NAPS = 3 };

static float weights[LENGTH];

struct arrays {
    float x[LENGTH], y[LENGTH], expected[LENGTH];
    int32_t ms[1], who[ROWS], naps[NAPS];
    uint32_t modes[ROWS];
    uint8_t intact[ROWS];
    const void *inputs[2];
    void *outputs[5];
};

static void fill(struct arrays *a, unsigned seed, int ms) {
    float next[LENGTH];
    memset(a, 0xA5, sizeof *a);
    for (int i = 0; i < LENGTH; i++) a->x[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-20f;
    memcpy(a->expected, a->x, sizeof a->x);
    for (int layer = 0; layer < LAYERS; layer++) {
        for (int i = 0; i < LENGTH; i++) next[i] = a->expected[LENGTH - 1 - i] * 0.5f + weights[i];
        memcpy(a->expected, next, sizeof next);
    }
    a->ms[0] = ms;
    a->inputs[0] = a->x, a->inputs[1] = a->ms;
    a->outputs[0] = a->y, a->outputs[1] = a->who, a->outputs[2] = a->modes, a->outputs[3] = a->intact;
    a->outputs[4] = a->naps;
}

static void check(const struct arrays *a) {
    NEED(!memcmp(a->y, a->expected, sizeof a->y));
    for (int i = 0; i < ROWS; i++) NEED(a->intact[i] == 1 && a->modes[i] == a->modes[0] && a->who[i] >= 1);
    for (int i = 0; i < NAPS; i++) NEED(a->naps[i] == a->ms[0]);
}

static exercise_context *made(int threads, uint32_t flags) {
    exercise_options options = {threads, flags, {0, 0}};
    exercise_context *context = NULL;
    int status = exercise_create(&options, &context);
    if (status) fprintf(stderr, "create: %s\n", exercise_error_text(status));
    NEED(!status && context);
    return context;
}

static void run_many(exercise_context *context, int count, unsigned seed) {
    struct arrays a;
    fill(&a, seed, 0);
    for (int i = 0; i < count; i++) {
        memset(a.y, 0, sizeof a.y);
        NEED(exercise_run(context, a.inputs, a.outputs) == MAVCG_OK);
        check(&a);
    }
}

static int runs(int threads, int count, uint32_t flags) {
    exercise_context *context = made(threads, flags);
    NEED(exercise_threads(context) == threads);
    run_many(context, count, 1);
    exercise_destroy(context);
    return 0;
}

struct job {
    exercise_context *context;
    int count, done, busy;
    unsigned seed;
};

static void *run_job(void *argument) {
    struct job *job = argument;
    run_many(job->context, job->count, job->seed);
    return NULL;
}

/* Two contexts at once, each with its threads. */
static int two(int threads, int count) {
    pthread_t handles[2];
    struct job jobs[2];
    for (int i = 0; i < 2; i++) {
        jobs[i] = (struct job){made(threads, 0), count, 0, 0, 7u + (unsigned)i};
        NEED(!pthread_create(&handles[i], NULL, run_job, &jobs[i]));
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(handles[i], NULL);
        exercise_destroy(jobs[i].context);
    }
    return 0;
}

static void *run_or_be_refused(void *argument) {
    struct job *job = argument;
    struct arrays a;
    fill(&a, job->seed, 0);
    for (int i = 0; i < job->count; i++) {
        int status = exercise_run(job->context, a.inputs, a.outputs);
        NEED(status == MAVCG_OK || status == MAVCG_BUSY);
        if (status) job->busy++;
        else job->done++, check(&a);
    }
    return NULL;
}

/* One context in three threads: each run is done or refused. */
static int shared(int threads, int count) {
    pthread_t handles[3];
    struct job jobs[3];
    exercise_context *context = made(threads, 0);
    int done = 0;
    for (int i = 0; i < 3; i++) {
        jobs[i] = (struct job){context, count, 0, 0, 3u + (unsigned)i};
        NEED(!pthread_create(&handles[i], NULL, run_or_be_refused, &jobs[i]));
    }
    for (int i = 0; i < 3; i++) pthread_join(handles[i], NULL), done += jobs[i].done;
    NEED(done > 0);
    exercise_destroy(context);
    return 0;
}

static void sleep_ms(int ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

static void *nap(void *argument) {
    struct job *job = argument;
    struct arrays a;
    fill(&a, 1, 150);
    job->done = exercise_run(job->context, a.inputs, a.outputs);
    return NULL;
}

static int cancel(int threads) {
    pthread_t handle;
    struct job job = {made(threads, 0), 0, 0, 0, 0};
    struct arrays a;
    fill(&a, 1, 0);
    NEED(exercise_cancel(NULL) == MAVCG_ERROR_NULL);
    NEED(exercise_cancel(job.context) == MAVCG_OK); /* nothing is under way: later runs know nothing of it */
    run_many(job.context, 1, 1);
    NEED(!pthread_create(&handle, NULL, nap, &job));
    sleep_ms(75);
    NEED(exercise_run(job.context, a.inputs, a.outputs) == MAVCG_BUSY);
    NEED(exercise_cancel(job.context) == MAVCG_OK);
    pthread_join(handle, NULL);
    NEED(job.done == MAVCG_CANCELLED);
    run_many(job.context, 3, 1);
    exercise_destroy(job.context);
    return 0;
}

static void in_child(exercise_context *context, int destroy) {
    pid_t child = fork();
    int status = 0;
    NEED(child >= 0);
    if (!child) {
        alarm(30);
        run_many(context, 20, 5);
        pid_t grandchild = fork();
        if (!grandchild) {
            run_many(context, 20, 6);
            exercise_destroy(context);
            _exit(0);
        }
        NEED(waitpid(grandchild, &status, 0) == grandchild && !status);
        run_many(context, 5, 6);
        if (destroy) exercise_destroy(context);
        _exit(0);
    }
    NEED(waitpid(child, &status, 0) == child && status == 0);
}

static int forks(int threads) {
    exercise_context *context = made(threads, 0);
    in_child(context, 1); /* before the first use */
    run_many(context, 20, 1);
    in_child(context, 1);
    in_child(context, 0);
    run_many(context, 20, 1);
    pthread_t handle; /* in the middle of another thread's run */
    struct job job = {context, 0, 0, 0, 0};
    NEED(!pthread_create(&handle, NULL, nap, &job));
    sleep_ms(75);
    in_child(context, 1);
    pthread_join(handle, NULL);
    NEED(job.done == MAVCG_OK);
    run_many(context, 20, 1);
    exercise_destroy(context);
    context = made(threads, 0);
    pid_t child = fork(); /* destroyed in a child without a run there */
    if (!child) exercise_destroy(context), _exit(0);
    int status;
    NEED(waitpid(child, &status, 0) == child && status == 0);
    exercise_destroy(context);
    return 0;
}

enum { NOT_ALLOWED = 77 };

/* A child in a PID namespace of its own, where its number is 1; -1 where the system does not allow that. As the system call
 * makes it: no handler of libc's knows of the fork. */
static pid_t fork_with_number_1(void) {
    pid_t child = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, NULL);
    if (child < 0) child = (pid_t)syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    return child;
}

static int child_failed(pid_t child) {
    int status;
    NEED(waitpid(child, &status, 0) == child);
    return !WIFEXITED(status) || WEXITSTATUS(status) ? 3 : 0;
}

/* In the process with number 1: its child has the same number, and none of its threads. */
static int in_first_namespace(int threads) {
    exercise_context *context = made(threads, 0);
    run_many(context, 5, 1);
    for (int run_there = 0; run_there < 2; run_there++) {
        pid_t child = fork_with_number_1();
        if (child < 0) return NOT_ALLOWED;
        if (!child) {
            NEED(getpid() == 1);
            alarm(20);
            if (run_there) run_many(context, 5, 2);
            exercise_destroy(context);
            _exit(0);
        }
        NEED(!child_failed(child));
        run_many(context, 5, 3);
    }
    exercise_destroy(context);
    return 0;
}

static int namespaces(int threads) {
    int status;
    pid_t child = fork_with_number_1();
    if (child < 0) return NOT_ALLOWED;
    if (!child) _exit(in_first_namespace(threads));
    NEED(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Children that share the memory, and so the threads; then one that destroys its parent's context for good. */
static int vforks(int threads) {
    exercise_context *context = made(threads, 0);
    struct arrays *a = malloc(sizeof *a);
    NEED(a);
    fill(a, 1, 0);
    run_many(context, 5, 1);
    for (int i = 0; i < 3; i++) {
        volatile int status = -1;
        pid_t child = vfork();
        if (!child) {
            status = i < 2 ? exercise_run(context, a->inputs, a->outputs) : (exercise_destroy(context), MAVCG_OK);
            _exit(0);
        }
        NEED(child > 0 && !child_failed(child) && status == MAVCG_OK);
        if (i < 2) check(a), run_many(context, 5, 1);
    }
    free(a);
    return 0;
}

#if defined(__x86_64__) && !defined(SANITIZED)
/* A run that is stepped through instruction by instruction (the processor's trap flag), and cancelled `instructions` after
 * it took the context: from then on the context is busy for others, and a cancel must be heeded. */
enum { TRAP_FLAG = 0x100 };
static exercise_context *stepped;
static struct arrays other;
static volatile int until_cancel;

static void at_instruction(int signal, siginfo_t *info, void *machine) {
    (void)signal, (void)info;
    if (until_cancel < 0) ((ucontext_t *)machine)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
    else if (exercise_run(stepped, other.inputs, other.outputs) == MAVCG_BUSY && until_cancel-- == 0)
        NEED(exercise_cancel(stepped) == MAVCG_OK);
}

static int cancelled_at_every_instruction(int instructions) {
    struct sigaction action = {.sa_sigaction = at_instruction, .sa_flags = SA_SIGINFO};
    struct arrays a;
    stepped = made(1, 0);
    NEED(!sigaction(SIGTRAP, &action, NULL));
    fill(&other, 2, 0);
    for (int i = 0; i < instructions; i++) {
        fill(&a, 1, 0);
        until_cancel = i;
        __asm__ volatile("pushf; orq $0x100, (%%rsp); popf" : : : "memory", "cc");
        int status = exercise_run(stepped, a.inputs, a.outputs);
        __asm__ volatile("pushf; andq $~0x100, (%%rsp); popf" : : : "memory", "cc");
        NEED(until_cancel == -1);
        if (status != MAVCG_CANCELLED) fprintf(stderr, "lost: a cancel %d instructions into a run\n", i);
        NEED(status == MAVCG_CANCELLED);
    }
    run_many(stepped, 3, 1);
    exercise_destroy(stepped);
    return 0;
}
#endif

static int errors(void) {
    struct arrays a;
    exercise_context *context = made(2, 0), *none = context;
    size_t in_bytes[2] = {sizeof a.x, sizeof a.ms};
    size_t out_bytes[5] = {sizeof a.y, sizeof a.who, sizeof a.modes, sizeof a.intact, sizeof a.naps};
    double step_ns[64];
    size_t count;
    fill(&a, 1, 0);
    NEED(exercise_create(NULL, NULL) == MAVCG_ERROR_NULL);
    exercise_options wrong[] = {{-1, 0, {0, 0}}, {1025, 0, {0, 0}}, {INT32_MIN, 0, {0, 0}},
                                {1, 2, {0, 0}},  {1, 0, {1, 0}},    {1, 0, {0, 1}}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        NEED(exercise_create(&wrong[i], &none) == MAVCG_ERROR_OPTION && !none);
        none = context;
    }
    NEED(exercise_run(NULL, a.inputs, a.outputs) == MAVCG_ERROR_NULL);
    NEED(exercise_run(context, NULL, a.outputs) == MAVCG_ERROR_NULL);
    NEED(exercise_run(context, a.inputs, NULL) == MAVCG_ERROR_NULL);
    NEED(exercise_profile(context, a.inputs, a.outputs, NULL) == MAVCG_ERROR_NULL);
    NEED(exercise_run_sized(context, a.inputs, NULL, a.outputs, out_bytes) == MAVCG_ERROR_NULL);
    NEED(exercise_run_sized(context, a.inputs, in_bytes, a.outputs, NULL) == MAVCG_ERROR_NULL);
    NEED(exercise_run_sized(context, a.inputs, in_bytes, a.outputs, out_bytes) == MAVCG_OK);
    for (int i = 0; i < 2; i++) {
        const void *right = a.inputs[i];
        a.inputs[i] = NULL;
        NEED(exercise_run(context, a.inputs, a.outputs) == MAVCG_ERROR_NULL);
        a.inputs[i] = (const char *)right + 1;
        NEED(exercise_run(context, a.inputs, a.outputs) == MAVCG_ERROR_ALIGNMENT);
        a.inputs[i] = right;
        in_bytes[i]++;
        NEED(exercise_run_sized(context, a.inputs, in_bytes, a.outputs, out_bytes) == MAVCG_ERROR_SIZE);
        in_bytes[i]--;
    }
    for (int i = 0; i < 5; i++) {
        void *right = a.outputs[i];
        a.outputs[i] = NULL;
        NEED(exercise_run(context, a.inputs, a.outputs) == MAVCG_ERROR_NULL);
        a.outputs[i] = (char *)a.x + 4 * (LENGTH - 1);
        NEED(exercise_run(context, a.inputs, a.outputs) == MAVCG_ERROR_OVERLAP);
        a.outputs[i] = a.outputs[(i + 1) % 5];
        NEED(exercise_run(context, a.inputs, a.outputs) == MAVCG_ERROR_OVERLAP);
        a.outputs[i] = right;
        out_bytes[i]--;
        NEED(exercise_run_sized(context, a.inputs, in_bytes, a.outputs, out_bytes) == MAVCG_ERROR_SIZE);
        out_bytes[i]++;
    }
    NEED(exercise_threads(NULL) == MAVCG_ERROR_NULL);
    exercise_destroy(NULL);
    const mavcg_tensor *inputs = exercise_inputs(&count);
    NEED(count == 2 && !strcmp(inputs[0].name, "x \"quoted\"") && inputs[0].type == MAVCG_F32 && inputs[0].rank == 2);
    NEED(inputs[0].dims[0] == 1 && inputs[0].dims[1] == LENGTH && inputs[0].bytes == sizeof a.x);
    const mavcg_tensor *outputs = exercise_outputs(NULL);
    NEED(exercise_outputs(&count) == outputs && count == 5 && outputs[3].type == MAVCG_U8 &&
         outputs[3].dims[0] == ROWS);
    const mavcg_step *steps = exercise_steps(&count);
    NEED(count == LAYERS + 3 + NAPS && !strcmp(steps[0].kernel, "chain_1") && steps[0].rows == LENGTH);
    memset(step_ns, 0, sizeof step_ns);
    a.ms[0] = 20;
    NEED(exercise_profile(context, a.inputs, a.outputs, step_ns) == MAVCG_OK);
    for (size_t i = 0; i < count; i++) NEED(i < LAYERS + 3 ? step_ns[i] > 0 : step_ns[i] > 19e6);
    for (int status = -11; status < 5; status++)
        NEED(!strcmp(exercise_error_text(status), "not a status of this library") == (status < -10 || status > 2));
    exercise_destroy(context);
    return 0;
}

/* A run's caller sets rounding to zero and denormals to zero: all threads follow, and follow back. */
static int modes(int threads) {
    struct arrays a;
    exercise_context *context = made(threads, 0);
    for (int round = 0; round < 50; round++) {
        fill(&a, 1, 0);
        uint32_t wanted;
#if defined(__x86_64__)
        wanted = round % 2 ? 0x1F80u | 0x6000u | 0x8040u : 0x1F80u;
        __builtin_ia32_ldmxcsr(wanted);
#else
        wanted = round % 2 ? 3u << 22 | 1u << 24 : 0;
        __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)wanted));
#endif
        NEED(exercise_run(context, a.inputs, a.outputs) == MAVCG_OK);
        for (int i = 0; i < ROWS; i++) NEED(a.modes[i] == wanted);
    }
    exercise_destroy(context);
    return 0;
}

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

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int first = argc > 2 ? atoi(argv[2]) : 1, second = argc > 3 ? atoi(argv[3]) : 1, failed = 2;
    for (int i = 0; i < LENGTH; i++) weights[i] = (float)(i % 17) * 0.25f; /* as in conftest.py */
    alarm(100);
    if (!strcmp(what, "runs")) failed = runs(first, second, 0);
    if (!strcmp(what, "pinned")) failed = runs(first, second, MAVCG_PIN);
    if (!strcmp(what, "two")) failed = two(first, second);
    if (!strcmp(what, "shared")) failed = shared(first, second);
    if (!strcmp(what, "cancel")) failed = cancel(first);
    if (!strcmp(what, "forks")) failed = forks(first);
    if (!strcmp(what, "namespaces")) failed = namespaces(first);
    if (!strcmp(what, "vforks")) failed = vforks(first);
#if defined(__x86_64__) && !defined(SANITIZED)
    if (!strcmp(what, "cancelled")) failed = cancelled_at_every_instruction(first);
#endif
    if (!strcmp(what, "errors")) failed = errors();
    if (!strcmp(what, "modes")) failed = modes(first);
    if (!strcmp(what, "switching")) failed = switching();
    if (!strcmp(what, "migrating")) failed = migrating();
    if (!strcmp(what, "who")) failed = print_who(first);
#if defined(__GLIBC__) && !defined(SANITIZED)
    if (!strcmp(what, "quiet")) failed = quiet(first);
#endif
    if (!strcmp(what, "names")) failed = names(first);
#ifdef NOTED_STACKS
    if (!strcmp(what, "stacks")) failed = stacks(first);
#endif
#ifdef SLOW_CLOCK
    if (!strcmp(what, "spins")) failed = spins();
#endif
#ifdef FAILING
    if (!strcmp(what, "failures")) failed = failures();
#endif
#ifdef PRETENDING
    if (!strcmp(what, "plans")) failed = plans(first, second);
    if (!strcmp(what, "woken")) failed = woken(first, second);
#endif
#ifdef OLD_CPU
    if (!strcmp(what, "old_cpu")) failed = old_cpu();
#endif
    if (!failed) printf("ok\n");
    return failed;
}
