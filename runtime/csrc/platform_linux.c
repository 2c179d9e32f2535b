/* Files, the running CPU and its registers on Linux with glibc, musl or bionic. Uses raw system calls, and symbols of
 * the C library only if it has them. */
#include "internal.h"
#include "linux_calls.h"
#include "platform.h"

#if !defined(__APPLE__)

#if defined(__x86_64__)
MAVCG_PRIVATE long system_call(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}
#else
MAVCG_PRIVATE long system_call(long number, long a, long b, long c) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}
#endif

enum {
    AT_THIS_FOLDER = -100,
    OPEN_READ_CLOEXEC = 02000000,
    ERROR_INTERRUPTED = -4,
    AUX_HWCAP = 16, /* include/uapi/linux/auxvec.h */
    AUX_HWCAP2 = 26,
    HWCAP_BIT_CPUID = 1 << 11 /* arch/arm64/include/uapi/asm/hwcap.h: MRS of MIDR_EL1 is emulated */
};

extern unsigned long getauxval(unsigned long type) MAVCG_WEAK_IMPORT;
#if defined(__x86_64__)
extern int sched_getcpu(void) MAVCG_WEAK_IMPORT; /* reads a segment limit; the system call costs 80 ns */
#ifdef MAVCG_BIONIC
#define ERRNO_LOCATION __errno /* <errno.h> of Android */
#else
#define ERRNO_LOCATION __errno_location
#endif
extern int *ERRNO_LOCATION(void) MAVCG_WEAK_IMPORT;
#endif

MAVCG_PRIVATE int open_file(const char *path) {
    long fd;
    do fd = system_call(SYS_OPENAT, AT_THIS_FOLDER, (long)path, OPEN_READ_CLOEXEC);
    while (fd == ERROR_INTERRUPTED);
    return (int)fd;
}

MAVCG_PRIVATE long read_file(int fd, char *buffer, size_t bytes) {
    long read_bytes;
    do read_bytes = system_call(SYS_READ, fd, (long)buffer, (long)bytes);
    while (read_bytes == ERROR_INTERRUPTED);
    return read_bytes;
}

MAVCG_PRIVATE void close_file(int fd) { system_call(SYS_CLOSE, fd, 0, 0); }

MAVCG_PRIVATE void write_stderr(const struct text_part *parts, int count) {
    system_call(SYS_WRITEV, 2, (long)parts, count);
}

MAVCG_PRIVATE int query_cpu(void) {
#if defined(__x86_64__)
    if (sched_getcpu && ERRNO_LOCATION) {
        int *error = ERRNO_LOCATION();
        int saved = *error;
        int cpu = sched_getcpu();
        *error = saved; /* a dispatched function must not change errno */
        return cpu;
    }
#endif
    unsigned cpu = 0;
    long failed = system_call(SYS_GETCPU, (long)&cpu, 0, 0);
    return failed ? MAVCG_NO_CPU : (int)cpu;
}

MAVCG_PRIVATE unsigned long aux_value(unsigned long type, bool *is_readable) {
    unsigned long pair[2], value = 0;
    *is_readable = true;
    if (getauxval) return getauxval(type);
    int fd = open_file("/proc/self/auxv");
    *is_readable = fd >= 0;
    while (read_file(fd, (char *)pair, sizeof pair) == (long)sizeof pair)
        if (pair[0] == type) value = pair[1];
    close_file(fd);
    return value;
}

MAVCG_PRIVATE uint64_t arm_hwcap(int number) {
#if defined(__aarch64__)
    enum { ON_ARM = 1 };
#else
    enum { ON_ARM = 0 };
#endif
    bool is_readable;
    return ON_ARM ? aux_value((unsigned)(AUX_HWCAP + number * (AUX_HWCAP2 - AUX_HWCAP)), &is_readable) : 0;
}

#if !defined(MAVCG_RUNNING_MIDR)
/* Source: Linux Documentation/arch/arm64/cpu-feature-registers.rst (the value is that of the CPU that executes the
 * read). */
MAVCG_PRIVATE uint32_t running_midr(void) {
    uint64_t midr = 0;
    if (arm_hwcap(0) & HWCAP_BIT_CPUID) {
#if defined(__aarch64__)
        __asm__ volatile("mrs %0, MIDR_EL1" : "=r"(midr));
#endif
    }
    return (uint32_t)midr;
}
#endif

#endif
