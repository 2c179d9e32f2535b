/* Files, the running CPU and the process on macOS. The CPU number comes from libSystem; the core types come from
 * MAVCG_CPU_MAP alone, since the system reports how many CPUs each performance level has, but not which they are. Every
 * symbol is imported weakly. */
#include "internal.h"
#include "platform.h"

#if defined(__APPLE__)

extern long writev(int fd, const struct text_part *parts, int count) __attribute__((weak_import));
extern int pthread_cpu_number_np(size_t *cpu) __attribute__((weak_import)); /* macOS 11 and later */

MAVCG_PRIVATE int open_file(const char *path) { return (void)path, -1; }

MAVCG_PRIVATE long read_file(int fd, char *buffer, size_t bytes) { return (void)fd, (void)buffer, (void)bytes, -1; }

MAVCG_PRIVATE void close_file(int fd) { (void)fd; }

MAVCG_PRIVATE void write_stderr(const struct text_part *parts, int count) {
    if (writev) writev(2, parts, count);
}

MAVCG_PRIVATE int query_cpu(void) {
    size_t cpu = 0;
    return pthread_cpu_number_np && !pthread_cpu_number_np(&cpu) ? (int)cpu : MAVCG_NO_CPU;
}

#if defined(__aarch64__)
/* Return 0: macOS has no AT_HWCAP. Only versions run there that need nothing beyond what the program was built for. */
MAVCG_PRIVATE uint64_t arm_hwcap(int number) { return (void)number, 0; }
#endif

MAVCG_PRIVATE uint32_t running_midr(void) { return 0; }

#endif
