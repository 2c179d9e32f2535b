/* macOS: the CPU number comes from libSystem and the core types from MAVCG_CPU_MAP alone, since the system says
 * only how many CPUs each performance level has, not which. Every symbol is imported weakly. */

struct text_part {
    const char *text;
    size_t bytes;
}; /* laid out as struct iovec */

extern long writev(int fd, const struct text_part *parts, int count) __attribute__((weak_import));
extern int getpid(void) __attribute__((weak_import));
extern int sched_yield(void) __attribute__((weak_import));
extern int issetugid(void) __attribute__((weak_import));
extern char ***_NSGetEnviron(void) __attribute__((weak_import));
extern int pthread_cpu_number_np(size_t *cpu) __attribute__((weak_import)); /* macOS 11 and later */

MAVCG_STATIC int open_file(const char *path) { return (void)path, -1; }

MAVCG_STATIC long read_file(int fd, char *buffer, size_t bytes) { return (void)fd, (void)buffer, (void)bytes, -1; }

MAVCG_STATIC void close_file(int fd) { (void)fd; }

MAVCG_STATIC void write_stderr(const struct text_part *parts, int count) {
    if (writev) writev(2, parts, count);
}

MAVCG_STATIC uint32_t process_id(void) { return getpid ? (uint32_t)getpid() : 0; }

MAVCG_STATIC void yield_cpu(void) {
    if (sched_yield) sched_yield();
}

MAVCG_STATIC int ask_cpu(void) {
    size_t cpu = 0;
    return pthread_cpu_number_np && !pthread_cpu_number_np(&cpu) ? (int)cpu : MAVCG_NO_CPU;
}

MAVCG_STATIC uint64_t rseq_offset(void) { return 0; }

MAVCG_STATIC char **environment(void) { return _NSGetEnviron ? *_NSGetEnviron() : NULL; }

MAVCG_STATIC int is_privileged(void) { return !issetugid || issetugid(); }

MAVCG_STATIC uint32_t running_midr(void) { return 0; }

/* Linux's AT_HWCAP; macOS has none, and no identification that would ask for it. */
MAVCG_STATIC uint32_t arm_hwcap(void) { return 0; }
