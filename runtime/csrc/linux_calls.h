/* Raw Linux system calls, the same for glibc, musl and bionic. */
#ifndef MAVCG_LINUX_CALLS_H
#define MAVCG_LINUX_CALLS_H

#include "internal.h"

#if !defined(__APPLE__)

#if defined(__x86_64__)
enum {
    SYS_READ = 0,
    SYS_CLOSE = 3,
    SYS_MMAP = 9,
    SYS_MUNMAP = 11,
    SYS_WRITEV = 20,
    SYS_YIELD = 24,
    SYS_MADVISE = 28,
    SYS_GETPID = 39,
    SYS_GETUID = 102,
    SYS_GETGID = 104,
    SYS_GETEUID = 107,
    SYS_GETEGID = 108,
    SYS_ARCH_PRCTL = 158,
    SYS_OPENAT = 257,
    SYS_GETCPU = 309
};
#elif defined(__aarch64__)
enum {
    SYS_OPENAT = 56,
    SYS_CLOSE = 57,
    SYS_READ = 63,
    SYS_WRITEV = 66,
    SYS_YIELD = 124,
    SYS_GETCPU = 168,
    SYS_GETPID = 172,
    SYS_GETUID = 174,
    SYS_GETEUID = 175,
    SYS_GETGID = 176,
    SYS_GETEGID = 177,
    SYS_MUNMAP = 215,
    SYS_MMAP = 222,
    SYS_MADVISE = 233
};
#else
#error "no system calls are known here for this architecture"
#endif

/* Make a system call with at most three arguments. Results from -4095 to -1 are negated errno values. */
MAVCG_PRIVATE long system_call(long number, long a, long b, long c);

/* Return an entry of the auxiliary vector. *is_readable: whether the vector could be read at all. */
MAVCG_PRIVATE unsigned long aux_value(unsigned long type, bool *is_readable);

#endif

#endif
