/* Uses the engine as a program would. The first argument says what to do; 0 and a line "ok ..." when all is well. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver_faults.h"
#include "driver_processes.h"
#include "driver_runs.h"
#include "driver_threads.h"
#include "exercise.h"
#include "need.h"

static int runs(int threads, int count, uint32_t flags) {
    exercise_context *context = made(threads, flags);
    NEED(exercise_threads(context) == threads);
    run_many(context, count, 1);
    exercise_destroy(context);
    return 0;
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
        NEED(!strcmp(exercise_error_text(status), "not a status of this library") == (status < -11 || status > 2));
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
