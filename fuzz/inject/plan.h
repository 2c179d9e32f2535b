/* Which call fails: the n-th of a kind, alone or with all after it. Each plan is tried in a child process, so that what
 * sanitizers find there, a hang or a signal is one row's verdict. */
#ifndef MAVCG_INJECT_PLAN_H
#define MAVCG_INJECT_PLAN_H

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "calls.h"
#undef malloc
#undef calloc
#undef posix_memalign
#undef mmap
#undef syscall
#undef open
#undef read
#undef fopen
#undef fread

#ifndef HANG_S
#define HANG_S 30
#endif
enum { RIGHT = 0, REFUSED = 1, WRONG = 2, MOST_CALLS = 20000 };

/* The kinds of calls, and the errors with which the system may answer them. */
static const struct kind {
    const char *name;
    int errors[3];
} kinds[INJECT_CALLS] = {
    [INJECT_ALLOCATE] = {"malloc", {ENOMEM}},
    [INJECT_MAP] = {"mmap", {ENOMEM, EAGAIN}},
    [INJECT_ADVISE] = {"madvise", {EINVAL, ENOMEM}},
    [INJECT_PROTECT] = {"mprotect", {ENOMEM, EACCES}},
    [INJECT_THREAD] = {"pthread_create", {EAGAIN, EPERM}},
    [INJECT_ATTRIBUTE] = {"pthread_attr", {ENOMEM}},
    [INJECT_LOCK] = {"pthread_mutex/cond_init", {ENOMEM}},
    [INJECT_OPEN] = {"open", {ENOENT, EMFILE, EACCES}},
    [INJECT_READ] = {"read", {EIO, EINTR}},
    [INJECT_WAIT] = {"futex", {EINTR, EAGAIN, ENOSYS}},
    [INJECT_WAKE] = {"futex wake", {0}},
    [INJECT_GET_AFFINITY] = {"sched_getaffinity", {EPERM, ENOSYS}},
    [INJECT_SET_AFFINITY] = {"sched_setaffinity", {EINVAL, EPERM}},
};

static struct {
    enum inject_call call;
    int at, error, onwards; /* the call's number from 1; 0: none fails */
    int armed, calls, hit;
} plan;

int mavcg_inject_error(enum inject_call call);
int mavcg_inject_error(enum inject_call call) {
    if (!__atomic_load_n(&plan.armed, __ATOMIC_SEQ_CST)) return 0;
    if (call == INJECT_WAKE) return plan.call == INJECT_WAIT && plan.onwards && plan.hit ? plan.error : 0;
    if (call != plan.call) return 0;
    int number = __atomic_add_fetch(&plan.calls, 1, __ATOMIC_SEQ_CST);
    if (number != plan.at && !(plan.onwards && number > plan.at)) return 0;
    __atomic_store_n(&plan.hit, 1, __ATOMIC_SEQ_CST);
    return plan.error;
}

static void arm(int armed) { __atomic_store_n(&plan.armed, armed, __ATOMIC_SEQ_CST); }

/* Tries one plan in a child; returns its verdict: RIGHT, REFUSED, WRONG, or 3 where no call failed. */
static int try_plan(int (*operation)(void)) {
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        alarm(HANG_S);
        int verdict = operation();
        exit(verdict == WRONG ? WRONG : !plan.hit ? 3 + verdict : verdict);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return WRONG;
    if (WIFEXITED(status) && WEXITSTATUS(status) <= 3) return WEXITSTATUS(status);
    fprintf(stderr, "%s %d of %s: %s %d\n", kinds[plan.call].name, plan.at, strerror(plan.error),
            WIFEXITED(status) ? "exit status" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return WRONG;
}

/* Tries every call of every kind until none fails; prints a line for each kind that is called. Returns the number of
 * plans that went wrong. */
static int try_all(const char *name, int (*operation)(void)) {
    int wrong = 0;
    for (int call = 0; call < INJECT_CALLS; call++)
        for (int which = 0; which < 3 && kinds[call].errors[which]; which++) {
            int counts[3] = {0, 0, 0};
            for (int onwards = 0; onwards < 2; onwards++)
                for (int at = 1; at < MOST_CALLS; at++) {
                    memset(&plan, 0, sizeof plan);
                    plan.call = (enum inject_call)call, plan.at = at, plan.onwards = onwards;
                    plan.error = kinds[call].errors[which];
                    int verdict = try_plan(operation);
                    if (verdict == 3) break;
                    counts[verdict]++;
                }
            int tried = counts[0] + counts[1] + counts[2];
            wrong += counts[WRONG];
            if (tried)
                printf("%s\t%s\t%s\t%d\t%d\t%d\t%d\n", name, kinds[call].name, strerror(kinds[call].errors[which]),
                       tried, counts[RIGHT], counts[REFUSED], counts[WRONG]);
            fflush(stdout);
        }
    return wrong;
}

#endif
