/* A sandbox that is there before any constructor: the system calls named in DENIED fail with EPERM, or, with KILL set,
 * those named in it end the process when main has begun. Prints the version that runs on each CPU of the arguments. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "versioned.h"

static void deny(long number, unsigned action) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(77);
}

static void before_constructors(int argc, char **argv, char **envp) {
    (void)argc, (void)argv;
    for (; *envp; envp++) {
        if (!strcmp(*envp, "DENY_GETCPU=1")) deny(SYS_getcpu, SECCOMP_RET_ERRNO | EPERM);
        if (!strcmp(*envp, "DENY_FILES=1")) deny(SYS_openat, SECCOMP_RET_ERRNO | ENOSYS);
    }
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char **,
                                                                              char **) = before_constructors;

int main(int argc, char **argv) {
    if (getenv("KILL_FILES")) deny(SYS_openat, SECCOMP_RET_KILL);
    for (int i = 1; i < argc; i++) {
        run_on(atoi(argv[i]));
        errno = 1234;
        int id = which();
        printf("cpu%s %d errno %d\n", argv[i], id, errno);
    }
    fflush(stdout);
    return 0;
}
