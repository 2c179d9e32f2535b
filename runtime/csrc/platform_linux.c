/* Linux, glibc, musl and bionic alike: raw system calls, and libc's symbols only where they happen to be there. */

#if defined(__x86_64__)
enum {
    SYS_READ = 0, SYS_CLOSE = 3, SYS_WRITEV = 20, SYS_YIELD = 24, SYS_GETPID = 39, SYS_GETUID = 102, SYS_GETGID = 104,
    SYS_GETEUID = 107, SYS_GETEGID = 108, SYS_OPENAT = 257, SYS_GETCPU = 309
};

MAVCG_STATIC long system_call(long number, long a, long b, long c, long d) {
    long result;
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
enum {
    SYS_OPENAT = 56, SYS_CLOSE = 57, SYS_READ = 63, SYS_WRITEV = 66, SYS_YIELD = 124, SYS_GETCPU = 168, SYS_GETPID = 172,
    SYS_GETUID = 174, SYS_GETEUID = 175, SYS_GETGID = 176, SYS_GETEGID = 177
};

MAVCG_STATIC long system_call(long number, long a, long b, long c, long d) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}
#else
#error "no system calls are known here for this architecture"
#endif

enum {
    AT_THIS_FOLDER = -100, OPEN_READ_CLOEXEC = 02000000, ERROR_INTERRUPTED = -4,
    AUX_HWCAP = 16, AUX_SECURE = 23, /* include/uapi/linux/auxvec.h */
    HWCAP_BIT_CPUID = 1 << 11        /* arch/arm64/include/uapi/asm/hwcap.h: MRS of MIDR_EL1 is emulated */
};

struct text_part {
    const char *text;
    size_t bytes;
}; /* laid out as struct iovec */

extern unsigned long getauxval(unsigned long type) MAVCG_IF_THERE;
extern char **environ MAVCG_IF_THERE;
extern char **__environ MAVCG_IF_THERE; /* a static musl program links only this one for certain */
extern const ptrdiff_t __rseq_offset MAVCG_IF_THERE; /* glibc 2.35 and later */
extern const unsigned int __rseq_size MAVCG_IF_THERE; /* 0 where the thread library does not use rseq */
#if defined(__x86_64__)
extern int sched_getcpu(void) MAVCG_IF_THERE; /* reads a segment limit, where the system call would cost 80 ns */
extern int *__errno_location(void) MAVCG_IF_THERE;
#endif

MAVCG_STATIC int open_file(const char *path) {
    long fd;
    do fd = system_call(SYS_OPENAT, AT_THIS_FOLDER, (long)path, OPEN_READ_CLOEXEC, 0);
    while (fd == ERROR_INTERRUPTED);
    return (int)fd;
}

MAVCG_STATIC long read_file(int fd, char *buffer, size_t bytes) {
    long got;
    do got = system_call(SYS_READ, fd, (long)buffer, (long)bytes, 0);
    while (got == ERROR_INTERRUPTED);
    return got;
}

MAVCG_STATIC void close_file(int fd) { system_call(SYS_CLOSE, fd, 0, 0, 0); }

/* One line in one call, so that lines of several processes do not mix. A closed stderr is no error of ours. */
MAVCG_STATIC void write_stderr(const struct text_part *parts, int count) {
    system_call(SYS_WRITEV, 2, (long)parts, count, 0);
}

MAVCG_STATIC uint32_t process_id(void) { return (uint32_t)system_call(SYS_GETPID, 0, 0, 0, 0); }

MAVCG_STATIC void yield_cpu(void) { system_call(SYS_YIELD, 0, 0, 0, 0); }

/* The CPU we run on, by asking the kernel; negative when a sandbox denies it. */
MAVCG_STATIC int ask_cpu(void) {
#if defined(__x86_64__)
    if (sched_getcpu) {
        int *error = __errno_location ? __errno_location() : NULL;
        int saved = error ? *error : 0;
        int cpu = sched_getcpu();
        if (error) *error = saved; /* a call that only computes must not change it */
        return cpu;
    }
#endif
    unsigned cpu = 0;
    long failed = system_call(SYS_GETCPU, (long)&cpu, 0, 0, 0);
    return failed ? MAVCG_NO_CPU : (int)cpu;
}

/* Distance from the thread pointer to struct rseq, or 0 where glibc keeps none. */
MAVCG_STATIC uint64_t rseq_offset(void) {
    if (!&__rseq_offset || !&__rseq_size || __rseq_size == 0) return 0;
    return (uint64_t)__rseq_offset;
}

MAVCG_STATIC char **environment(void) {
    if (&__environ && __environ) return __environ;
    return &environ ? environ : NULL;
}

/* An entry of the auxiliary vector; found: whether it could be read at all. */
MAVCG_STATIC unsigned long aux_value(unsigned long type, int *found) {
    unsigned long pair[2];
    *found = 1;
    if (getauxval) return getauxval(type);
    int fd = open_file("/proc/self/auxv");
    *found = fd >= 0;
    if (fd < 0) return 0;
    unsigned long value = 0;
    while (read_file(fd, (char *)pair, sizeof pair) == (long)sizeof pair && pair[0])
        if (pair[0] == type) value = pair[1];
    close_file(fd);
    return value;
}

/* A set-user-ID program: what the caller's environment says must not count. */
MAVCG_STATIC int is_privileged(void) {
    int found;
    unsigned long secure = aux_value(AUX_SECURE, &found);
    if (found) return secure != 0;
    return system_call(SYS_GETUID, 0, 0, 0, 0) != system_call(SYS_GETEUID, 0, 0, 0, 0) ||
           system_call(SYS_GETGID, 0, 0, 0, 0) != system_call(SYS_GETEGID, 0, 0, 0, 0);
}

/* AT_HWCAP of an Arm kernel: what every CPU of this machine has. 0 on another architecture. */
MAVCG_STATIC uint32_t arm_hwcap(void) {
#if defined(__aarch64__)
    int found;
    return (uint32_t)aux_value(AUX_HWCAP, &found);
#else
    return 0;
#endif
}

/* MIDR_EL1 of the CPU we run on, or 0. It traps: never on the way of a call. Source: Linux
 * Documentation/arch/arm64/cpu-feature-registers.rst (MIDR_EL1 is that of the CPU where it is fetched). */
MAVCG_STATIC uint32_t running_midr(void) {
#if defined(__aarch64__)
    if (arm_hwcap() & HWCAP_BIT_CPUID) {
        uint64_t midr;
        __asm__ volatile("mrs %0, MIDR_EL1" : "=r"(midr));
        return (uint32_t)midr;
    }
#endif
    return 0;
}
