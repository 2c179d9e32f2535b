/* The running process on Linux: its number, its memory, its environment. */
#include "internal.h"
#include "linux_calls.h"
#include "process.h"

#if !defined(__APPLE__)

#ifndef ADVICE_WIPE_ON_FORK    /* tests emulate a kernel without it */
#define ADVICE_WIPE_ON_FORK 18 /* include/uapi/asm-generic/mman-common.h, since Linux 4.14 */
#endif

enum {
    AUX_SECURE = 23,                 /* include/uapi/linux/auxvec.h */
    READ_WRITE = 1 | 2,              /* PROT_READ | PROT_WRITE */
    PRIVATE_ANONYMOUS = 0x02 | 0x20, /* MAP_PRIVATE | MAP_ANONYMOUS */
    NO_ADVICE = -1,
    PAGE_BYTES = 4096, /* the kernel rounds up to its own page size */
    LOWEST_ERROR = -4095
};

#ifdef MAVCG_BIONIC
#define ENVIRONMENT environ
#else
#define ENVIRONMENT __environ /* the alias that every static musl program has */
#endif
extern char **ENVIRONMENT MAVCG_WEAK_IMPORT;
#ifndef MAVCG_BIONIC                                     /* bionic has neither of these */
extern const ptrdiff_t __rseq_offset MAVCG_WEAK_IMPORT;  /* glibc 2.35 and later */
extern const unsigned int __rseq_size MAVCG_WEAK_IMPORT; /* 0 if the thread library does not use rseq */
#endif

#ifndef PROCESS_ID /* tests give all processes the same number */
#define PROCESS_ID system_call(SYS_GETPID, 0, 0, 0)
#endif

MAVCG_PRIVATE uint32_t process_id(void) { return (uint32_t)PROCESS_ID; }

/* Map zeroed memory. Returns its address, or a negated errno on failure. */
static long map_memory(long bytes) {
    const long no_file = -1;
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = PRIVATE_ANONYMOUS;
    register long r8 __asm__("r8") = no_file;
    register long r9 __asm__("r9") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"((long)SYS_MMAP), "D"(0L), "S"(bytes), "d"((long)READ_WRITE), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = SYS_MMAP;
    register long x0 __asm__("x0") = 0;
    register long x1 __asm__("x1") = bytes;
    register long x2 __asm__("x2") = READ_WRITE;
    register long x3 __asm__("x3") = PRIVATE_ANONYMOUS;
    register long x4 __asm__("x4") = no_file;
    register long x5 __asm__("x5") = 0;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#endif
}

/* An emulator may accept any advice and follow none (qemu-user before 7.2), so probe with invalid advice first: only a
 * kernel that rejects it is trusted. */
MAVCG_PRIVATE uint64_t *word_cleared_in_children(void) {
    long page = map_memory(PAGE_BYTES);
    if (page < 0 && page >= LOWEST_ERROR) return NULL;
    if (system_call(SYS_MADVISE, page, PAGE_BYTES, NO_ADVICE) &&
        !system_call(SYS_MADVISE, page, PAGE_BYTES, ADVICE_WIPE_ON_FORK))
        return (uint64_t *)page;
    free_cleared_word((uint64_t *)page);
    return NULL;
}

MAVCG_PRIVATE void free_cleared_word(uint64_t *word) { system_call(SYS_MUNMAP, (long)word, PAGE_BYTES, 0); }

MAVCG_PRIVATE void yield_cpu(void) { system_call(SYS_YIELD, 0, 0, 0); }

#ifdef MAVCG_BIONIC
MAVCG_PRIVATE uint64_t rseq_offset(void) { return 0; }
#else
MAVCG_PRIVATE uint64_t rseq_offset(void) {
    if (!&__rseq_offset || !&__rseq_size || __rseq_size == 0) return 0;
    return (uint64_t)__rseq_offset;
}
#endif

MAVCG_PRIVATE char **environment(void) { return &ENVIRONMENT ? ENVIRONMENT : NULL; }

MAVCG_PRIVATE bool is_privileged(void) {
    bool is_readable;
    unsigned long secure = aux_value(AUX_SECURE, &is_readable);
    if (is_readable) return secure != 0;
    return system_call(SYS_GETUID, 0, 0, 0) != system_call(SYS_GETEUID, 0, 0, 0) ||
           system_call(SYS_GETGID, 0, 0, 0) != system_call(SYS_GETEGID, 0, 0, 0);
}

#endif
