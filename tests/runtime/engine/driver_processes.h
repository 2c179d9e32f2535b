/* Forks, namespaces and signals while a context is in use. */
#ifndef DRIVER_PROCESSES_H
#define DRIVER_PROCESSES_H

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include "driver_runs.h"
#include "exercise.h"
#include "need.h"

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

#endif
