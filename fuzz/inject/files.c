/* Preloaded into Python: the n-th call of a kind that touches a file below a folder fails, once a plan is armed.
 *
 * A fork or an exec counts wherever it is. Programs that are started are left alone, forked copies are not: they share
 * the count. commands.py arms the plans. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static struct {
    char kind[16], folder[PATH_MAX];
    int at, error, onwards;
} plan;
static int *count; /* and a second number, of calls that failed; in memory that forked copies share */

__attribute__((constructor)) static void leave_programs_alone(void) { unsetenv("LD_PRELOAD"); }

/* Returns two counts, both 0: of calls of the kind that is armed, and of those that failed. */
int *mavcg_inject_begin(void);
int *mavcg_inject_begin(void) {
    void *shared = mmap(NULL, 2 * sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    plan.kind[0] = 0;
    return count = shared == MAP_FAILED ? NULL : shared;
}

/* Lets a call fail from now on, in this process and its copies. */
void mavcg_inject_arm(const char *kind, int at, int error, int onwards, const char *folder);
void mavcg_inject_arm(const char *kind, int at, int error, int onwards, const char *folder) {
    snprintf(plan.kind, sizeof plan.kind, "%s", kind);
    snprintf(plan.folder, sizeof plan.folder, "%s", folder);
    plan.at = at, plan.error = error, plan.onwards = onwards;
}

/* The errno with which the call is to fail, or 0. */
static int failure(const char *kind) {
    if (!count || strcmp(kind, plan.kind)) return 0;
    int number = __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
    if (number != plan.at && !(plan.onwards && number > plan.at)) return 0;
    __atomic_add_fetch(count + 1, 1, __ATOMIC_SEQ_CST);
    return plan.error;
}

/* Whether a path, or its folder where it is relative, is below the folder. */
static int is_ours(int folder, const char *path) {
    char whole[2 * PATH_MAX], from[64];
    if (path && path[0] == '/') return !strncmp(path, plan.folder, strlen(plan.folder));
    if (folder == AT_FDCWD) {
        if (syscall(SYS_getcwd, whole, sizeof whole) < 0) return 0;
    } else {
        snprintf(from, sizeof from, "/proc/self/fd/%d", folder);
        ssize_t size = readlink(from, whole, PATH_MAX);
        if (size < 0) return 0;
        whole[size] = 0;
    }
    return !strncmp(whole, plan.folder, strlen(plan.folder));
}

static int fails(const char *kind, int folder, const char *path) {
    if (!count || strcmp(kind, plan.kind) || !is_ours(folder, path)) return 0;
    int error = failure(kind);
    if (error) errno = error;
    return error;
}

#define DEFINE_OPEN(name)                             \
    int name(const char *path, int flags, ...) {      \
        va_list list;                                 \
        va_start(list, flags);                        \
        mode_t mode = va_arg(list, mode_t);           \
        va_end(list);                                 \
        if (fails("open", AT_FDCWD, path)) return -1; \
        return REAL(name)(path, flags, mode);         \
    }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)

#define DEFINE_OPENAT(name)                                  \
    int name(int folder, const char *path, int flags, ...) { \
        va_list list;                                        \
        va_start(list, flags);                               \
        mode_t mode = va_arg(list, mode_t);                  \
        va_end(list);                                        \
        if (fails("open", folder, path)) return -1;          \
        return REAL(name)(folder, path, flags, mode);        \
    }
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

ssize_t write(int file, const void *bytes, size_t size) {
    if (fails("write", file, NULL)) return -1;
    return REAL(write)(file, bytes, size);
}

/* SQLite writes by pwrite64, Python's copies of files by sendfile. */
#define DEFINE_PWRITE(name)                                                      \
    ssize_t name(int file, const void *bytes, size_t size, __off64_t position) { \
        if (fails("write", file, NULL)) return -1;                               \
        return REAL(name)(file, bytes, size, position);                          \
    }
DEFINE_PWRITE(pwrite)
DEFINE_PWRITE(pwrite64)

ssize_t writev(int file, const struct iovec *parts, int count) {
    if (fails("write", file, NULL)) return -1;
    return REAL(writev)(file, parts, count);
}

#define DEFINE_SENDFILE(name)                                          \
    ssize_t name(int to, int from, __off64_t *position, size_t size) { \
        if (fails("write", to, NULL)) return -1;                       \
        return REAL(name)(to, from, position, size);                   \
    }
DEFINE_SENDFILE(sendfile)
DEFINE_SENDFILE(sendfile64)

int unlink(const char *path) { return fails("unlink", AT_FDCWD, path) ? -1 : REAL(unlink)(path); }

int unlinkat(int folder, const char *path, int flags) {
    return fails("unlink", folder, path) ? -1 : REAL(unlinkat)(folder, path, flags);
}

int rmdir(const char *path) { return fails("unlink", AT_FDCWD, path) ? -1 : REAL(rmdir)(path); }

int rename(const char *from, const char *to) { return fails("rename", AT_FDCWD, to) ? -1 : REAL(rename)(from, to); }

int renameat(int a, const char *from, int b, const char *to) {
    return fails("rename", b, to) ? -1 : REAL(renameat)(a, from, b, to);
}

int mkdir(const char *path, mode_t mode) { return fails("mkdir", AT_FDCWD, path) ? -1 : REAL(mkdir)(path, mode); }

int mkdirat(int folder, const char *path, mode_t mode) {
    return fails("mkdir", folder, path) ? -1 : REAL(mkdirat)(folder, path, mode);
}

int link(const char *from, const char *to) { return fails("link", AT_FDCWD, to) ? -1 : REAL(link)(from, to); }

int linkat(int a, const char *from, int b, const char *to, int flags) {
    return fails("link", b, to) ? -1 : REAL(linkat)(a, from, b, to, flags);
}

pid_t fork(void) {
    int error = failure("fork");
    if (error) {
        errno = error;
        return -1;
    }
    return REAL(fork)();
}

/* Python starts programs by vfork where it can; a function that returns twice cannot call that of the C library. */
pid_t vfork(void) { return fork(); }

int execve(const char *path, char *const *arguments, char *const *environment) {
    int error = failure("exec");
    if (error) {
        errno = error;
        return -1;
    }
    return REAL(execve)(path, arguments, environment);
}

int execv(const char *path, char *const *arguments) { return execve(path, arguments, environ); }
