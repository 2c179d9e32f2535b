/* Runs as the first process of a PID namespace, whose child is the first of another: both have the number 1. The parent
 * calls 3 times, its child twice, then the parent once more. Exit status 77 where the system allows no namespaces. */
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "versioned.h"

/* As the system call makes it: no fork handler of libc runs. */
static pid_t fork_with_number_1(void) {
    pid_t child = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, NULL);
    if (child < 0) child = (pid_t)syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    return child;
}

static int wait_for(pid_t child) {
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int first_process(void) {
    for (int call = 0; call < 3; call++) which();
    pid_t child = fork_with_number_1();
    if (child < 0) _exit(77);
    if (!child) {
        if (getpid() != 1) return 1;
        for (int call = 0; call < 2; call++) which();
        return 0;
    }
    int failed = wait_for(child);
    which();
    return failed;
}

int main(void) {
    pid_t child = fork_with_number_1();
    if (child < 0) return 77;
    return child ? wait_for(child) : first_process();
}
