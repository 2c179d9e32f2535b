/* Uses a pipeline of three stages as a program would. The first argument says what to do; "ok" when all is well. */
#include <dirent.h>
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "need.h"
#include "staged_app.h"

enum { LENGTH = 1000, ROWS = 96, INTACT = 4, LAYERS = 12, STAGES = 3, MOST = 64 };

static float weights[LENGTH];

struct arrays {
    float x[LENGTH], y[LENGTH], side[LENGTH], expected[LENGTH], expected_side[LENGTH];
    int32_t ms[1], naps[STAGES];
    uint32_t modes[ROWS];
    uint8_t intact[INTACT];
    const void *inputs[2];
    void *outputs[5];
};

static void layer(float *at) {
    float next[LENGTH];
    for (int i = 0; i < LENGTH; i++) next[i] = at[LENGTH - 1 - i] * 0.5f + weights[i];
    memcpy(at, next, sizeof next);
}

static void fill(struct arrays *a, unsigned seed, int ms) {
    memset(a, 0xA5, sizeof *a);
    for (int i = 0; i < LENGTH; i++) a->x[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-20f;
    memcpy(a->expected, a->x, sizeof a->x);
    memcpy(a->expected_side, a->x, sizeof a->x);
    for (int i = 0; i < LAYERS; i++) layer(a->expected);
    for (int i = 0; i < 2; i++) layer(a->expected_side);
    a->ms[0] = ms;
    a->inputs[0] = a->x, a->inputs[1] = a->ms;
    a->outputs[0] = a->y, a->outputs[1] = a->side, a->outputs[2] = a->modes, a->outputs[3] = a->intact;
    a->outputs[4] = a->naps;
}

static void check(const struct arrays *a) {
    NEED(!memcmp(a->y, a->expected, sizeof a->y) && !memcmp(a->side, a->expected_side, sizeof a->side));
    for (int i = 0; i < ROWS; i++) NEED(a->modes[i] == a->modes[0]);
    for (int i = 0; i < INTACT; i++) NEED(a->intact[i] == 1);
    for (int i = 0; i < STAGES; i++) NEED(a->naps[i] == a->ms[0]);
}

static staged_app_application *made(int threads) {
    const uint16_t cpu = 0;
    mavcg_stage_place places[STAGES];
    memset(places, 0, sizeof places);
    for (uint32_t stage = 0; stage < STAGES; stage++) {
        places[stage].stage = stage;
        places[stage].threads = threads;
        if (threads == 2) places[stage].cpu_count = 1, places[stage].cpus = &cpu;
    }
    void *app = NULL;
    NEED(mavcg_app_staged_app_create_placed(NULL, places, STAGES, &app) == MAVCG_OK && app);
    return app;
}

static int push(staged_app_application *app, struct arrays *a, int32_t timeout_ms) {
    return staged_app_push_staged(app, a->inputs, a->outputs, a, timeout_ms);
}

static struct arrays *popped(staged_app_application *app, int expected) {
    void *frame = NULL;
    NEED(staged_app_pop_staged(app, &frame, -1) == expected && frame);
    return frame;
}

struct consumer {
    staged_app_application *app;
    struct arrays *arrays;
    int count;
};

static void *consume(void *argument) {
    struct consumer *consumer = argument;
    for (int i = 0; i < consumer->count; i++) {
        struct arrays *frame = popped(consumer->app, MAVCG_OK);
        NEED(frame == &consumer->arrays[i % MOST]);
        check(frame);
        memset(frame->y, 0, sizeof frame->y);
    }
    return NULL;
}

/* Push from this thread and pop in another. More frames than arrays: each is used again only when it was popped. */
static void stream(staged_app_application *app, int count) {
    struct arrays *arrays = calloc(MOST, sizeof *arrays);
    struct consumer consumer = {app, arrays, count};
    pthread_t thread;
    for (int i = 0; i < MOST; i++) fill(&arrays[i], (unsigned)i, 0);
    NEED(!pthread_create(&thread, NULL, consume, &consumer));
    for (int i = 0; i < count; i++) NEED(push(app, &arrays[i % MOST], -1) == MAVCG_OK);
    pthread_join(thread, NULL);
    free(arrays);
}

static int thread_count(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    NEED(tasks);
    while (readdir(tasks)) count++;
    closedir(tasks);
    return count - 2;
}

static void print_threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    NEED(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300], name[64];
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *comm = task->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (comm && fgets(name, sizeof name, comm)) fprintf(stderr, "thread %s: %s", task->d_name, name);
        if (comm) fclose(comm);
    }
    closedir(tasks);
}

/* A thread that was joined may be listed for a moment, on a busy machine for longer. */
static void expect_threads(int count) {
    for (int i = 0; i < 5000 && thread_count() != count; i++) usleep(1000);
    if (thread_count() != count) print_threads();
    NEED(thread_count() == count);
}

static void *note_id(void *id) {
    *(long *)id = syscall(SYS_gettid);
    return NULL;
}

/* How many threads the program has that are not the engine's. ThreadSanitizer starts one of its own with the first that
 * the program starts, and keeps it: so one is started and joined, and counted is when it is no longer listed. All are
 * counted, not those with the engine's names alone: a thread has the program's name until it gives itself one. */
static int threads_of_program(void) {
    long id = 0;
    char path[64];
    pthread_t thread;
    NEED(!pthread_create(&thread, NULL, note_id, &id));
    NEED(!pthread_join(thread, NULL));
    snprintf(path, sizeof path, "/proc/self/task/%ld", id);
    for (int i = 0; i < 5000 && !access(path, F_OK); i++) usleep(1000);
    NEED(access(path, F_OK));
    return thread_count();
}

static void plain_run(staged_app_application *app, int expected) {
    struct arrays a;
    fill(&a, 99, 0);
    NEED(staged_run(staged_app_context_of_staged(app), a.inputs, a.outputs) == expected);
    if (!expected) check(&a);
}

static void nap(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* Frames that sleep in each stage are cancelled in the middle: all are popped, in order, and the next ones are right. */
static void cancel(int threads) {
    staged_app_application *app = made(threads);
    struct arrays a[4];
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 4; i++) fill(&a[i], (unsigned)i, 15);
        for (int i = 0; i < 4; i++) NEED(push(app, &a[i], -1) == MAVCG_OK);
        plain_run(app, MAVCG_BUSY);
        nap(5 + 8 * round);
        NEED(staged_app_cancel_frames_of_staged(app) == MAVCG_OK);
        int cancelled = 0;
        for (int i = 0; i < 4; i++) {
            void *frame = NULL;
            int status = staged_app_pop_staged(app, &frame, -1);
            NEED(frame == &a[i] && (status == MAVCG_CANCELLED || status == MAVCG_OK));
            NEED(status == MAVCG_CANCELLED || !cancelled); /* none after a cancelled one is complete */
            cancelled += status == MAVCG_CANCELLED;
            if (status == MAVCG_OK) check(&a[i]);
        }
        NEED(cancelled >= 1);
        NEED(staged_app_pop_staged(app, NULL, 0) == MAVCG_AGAIN);
        plain_run(app, MAVCG_OK);
        stream(app, 10);
    }
    staged_app_destroy_application(app);
}

/* Applications are destroyed while frames are in each stage: no thread is left, and nothing is written afterwards. */
static void shutdowns(int threads) {
    struct arrays a[6];
    int before = threads_of_program();
    for (int round = 0; round < 12; round++) {
        staged_app_application *app = made(threads);
        for (int i = 0; i < 6; i++) fill(&a[i], (unsigned)i, round % 2 ? 0 : 4);
        for (int i = 0; i < round % 7; i++) NEED(push(app, &a[i], -1) == MAVCG_OK);
        nap(round % 5);
        staged_app_destroy_application(app);
        memset(a, 0, sizeof a);
        expect_threads(before);
    }
}

static void forks(int threads) {
    staged_app_application *app = made(threads);
    struct arrays a[5];
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 5; i++) fill(&a[i], (unsigned)i, 3);
        for (int i = 0; i < round; i++) NEED(push(app, &a[i], -1) == MAVCG_OK);
        pid_t child = fork();
        NEED(child >= 0);
        if (!child) {
            if (round == 1) { /* without a frame of its own */
                staged_app_destroy_application(app);
                _exit(0);
            }
            NEED(staged_app_pop_staged(app, NULL, 0) == MAVCG_AGAIN);
            plain_run(app, MAVCG_OK);
            stream(app, 12);
            pid_t grandchild = fork();
            if (!grandchild) {
                stream(app, 5);
                _exit(0);
            }
            int status;
            NEED(waitpid(grandchild, &status, 0) == grandchild && !status);
            for (int i = 0; i < 3; i++) NEED(push(app, &a[i], -1) == MAVCG_OK);
            staged_app_destroy_application(app);
            _exit(0);
        }
        int status;
        NEED(waitpid(child, &status, 0) == child && !status);
        for (int i = 0; i < round; i++) check(popped(app, MAVCG_OK));
    }
    staged_app_destroy_application(app);
}

/* Each frame is computed in the rounding mode of the thread that pushed it. */
static void modes(void) {
    staged_app_application *app = made(2);
    struct arrays a[4];
    for (int i = 0; i < 4; i++) {
        fill(&a[i], 1, 0);
        fesetround(i % 2 ? FE_UPWARD : FE_TONEAREST);
        NEED(push(app, &a[i], -1) == MAVCG_OK);
    }
    fesetround(FE_TONEAREST);
    for (int i = 0; i < 4; i++) popped(app, MAVCG_OK);
    NEED(a[0].modes[0] == a[2].modes[0] && a[1].modes[0] == a[3].modes[0] && a[0].modes[0] != a[1].modes[0]);
    for (int i = 0; i < 4; i++)
        for (int row = 0; row < ROWS; row++) NEED(a[i].modes[row] == a[i].modes[0]);
    staged_app_destroy_application(app);
}

/* Print the name of each stage's thread, and the CPUs that it may use. */
static void show_places(void) {
    void *app = NULL, *frame;
    struct arrays a;
    fill(&a, 7, 0);
    NEED(mavcg_app_staged_app_create(NULL, &app) == MAVCG_OK);
    for (int i = 0; i < 3; i++) { /* a thread has its name and place when it has computed something */
        NEED(push(app, &a, -1) == MAVCG_OK);
        NEED(staged_app_pop_staged(app, &frame, -1) == MAVCG_OK);
        check(&a);
    }
    DIR *tasks = opendir("/proc/self/task");
    NEED(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300], line[256], name[64] = "", cpus[64] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = task->d_name[0] == '.' ? NULL : fopen(path, "r");
        while (status && fgets(line, sizeof line, status)) {
            sscanf(line, "Name: %63s", name);
            sscanf(line, "Cpus_allowed_list: %63s", cpus);
        }
        if (status) fclose(status);
        if (!strncmp(name, "mavcg-stage", strlen("mavcg-stage"))) printf("%s %s\n", name, cpus);
    }
    closedir(tasks);
    staged_app_destroy_application(app);
}

#ifdef LEAKING
/* With the n-th thread of the engine comes another, which never ends. */
static int until_leak;
static void *sleep_forever(void *argument) {
    for (;;) pause();
    return argument;
}

int leaking_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);
int leaking_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    pthread_t leaked;
    if (__atomic_fetch_sub(&until_leak, 1, __ATOMIC_RELAXED) == 0)
        NEED(!pthread_create(&leaked, NULL, sleep_forever, NULL));
    return pthread_create(thread, attributes, start, argument);
}
#endif

#ifdef FAILING
/* The n-th allocation, or thread, is not to be had. */
static int until_failure = -1;
int failing_memalign(void **place, size_t align, size_t bytes);
int failing_memalign(void **place, size_t align, size_t bytes) {
    return until_failure-- == 0 ? ENOMEM : posix_memalign(place, align, bytes);
}
void *failing_mmap(void *place, size_t bytes, int protection, int flags, int file, off_t offset);
void *failing_mmap(void *place, size_t bytes, int protection, int flags, int file, off_t offset) {
    return until_failure-- == 0 ? MAP_FAILED : mmap(place, bytes, protection, flags, file, offset);
}
void *failing_calloc(size_t count, size_t bytes);
void *failing_calloc(size_t count, size_t bytes) { return until_failure-- == 0 ? NULL : calloc(count, bytes); }
int failing_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);
int failing_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    return __atomic_fetch_sub(&until_failure, 1, __ATOMIC_RELAXED) == 0
               ? EAGAIN
               : pthread_create(thread, attributes, start, argument);
}

static void failures(void) {
    void *created;
    int failed = 0, before = threads_of_program();
    for (int n = 0;; n++) {
        until_failure = n;
        int status = mavcg_app_staged_app_create(NULL, &created);
        if (!status) break;
        NEED(status == MAVCG_ERROR_MEMORY && !created);
        failed++;
    }
    until_failure = -1;
    NEED(failed > 30); /* memory, six slots with two arrays each, four contexts of four parts */
    staged_app_destroy_application(created);
    staged_app_application *app = made(3);
    struct arrays a;
    fill(&a, 1, 0);
    for (int n = 0; n < STAGES; n++) { /* threads of stages: push says so, and may be called again */
        until_failure = n;
        NEED(push(app, &a, -1) == MAVCG_ERROR_THREADS);
        expect_threads(before);
    }
    for (int n = STAGES; n < STAGES + 6; n++) { /* threads of a stage's context: the frame says so */
        until_failure = n;
        NEED(push(app, &a, -1) == MAVCG_OK);
        popped(app, MAVCG_ERROR_THREADS);
        until_failure = -1;
        NEED(push(app, &a, -1) == MAVCG_OK);
        check(popped(app, MAVCG_OK));
        staged_app_destroy_application(app);
        expect_threads(before);
        app = made(3);
    }
    until_failure = -1;
    stream(app, 20);
    staged_app_destroy_application(app);
}
#endif

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    int threads = count > 2 ? atoi(arguments[2]) : 1, frames = count > 3 ? atoi(arguments[3]) : 100;
    for (int i = 0; i < LENGTH; i++) weights[i] = (float)(i % 17) * 0.25f;
    if (!strcmp(what, "frames")) {
        staged_app_application *app = made(threads), *other = made(1);
        stream(app, frames);
        stream(other, frames / 4);
        plain_run(app, MAVCG_OK);
        stream(app, frames / 4);
        staged_app_destroy_application(other);
        staged_app_destroy_application(app);
    } else if (!strcmp(what, "cancel")) {
        cancel(threads);
    } else if (!strcmp(what, "shutdowns")) {
        shutdowns(threads);
    } else if (!strcmp(what, "forks")) {
        forks(threads);
    } else if (!strcmp(what, "modes")) {
        modes();
    } else if (!strcmp(what, "places")) {
        show_places();
#ifdef LEAKING
    } else if (!strcmp(what, "leak")) {
        until_leak = count > 3 ? atoi(arguments[3]) : 0;
        shutdowns(threads);
#endif
#ifdef FAILING
    } else if (!strcmp(what, "failures")) {
        failures();
#endif
    } else {
        return 2;
    }
    puts("ok");
    return 0;
}
