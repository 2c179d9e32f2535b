/* Files, the running CPU and its registers, as the operating system provides them: platform_linux.c,
 * platform_macos.c. */
#ifndef MAVCG_PLATFORM_H
#define MAVCG_PLATFORM_H

#include "internal.h"

/* A part of a line; has the layout of struct iovec. */
struct text_part {
    const char *text;
    size_t bytes;
};

/* Open a file for reading. Returns its descriptor; negative on failure. */
MAVCG_PRIVATE int open_file(const char *path);

/* Read from a file. Returns the number of bytes read, 0 at the end of the file, negative on failure. */
MAVCG_PRIVATE long read_file(int fd, char *buffer, size_t bytes);

MAVCG_PRIVATE void close_file(int fd);

/* Write a line in a single call, so that lines of several processes do not mix. A closed stderr is not an error. */
MAVCG_PRIVATE void write_stderr(const struct text_part *parts, int count);

/* Return the number of the CPU that the thread runs on, queried from the kernel; negative if a sandbox denies it. */
MAVCG_PRIVATE int query_cpu(void);

#if !defined(__APPLE__) || defined(__aarch64__)
/* Return AT_HWCAP (number 0) or AT_HWCAP2 (1) of an Arm kernel: the features that all CPUs of this machine have. Returns 0
 * where neither the C library nor a file tells them: then nothing beyond Armv8.0-A is used; and on other architectures. */
MAVCG_PRIVATE uint64_t arm_hwcap(int number);
#endif

/* Return MIDR_EL1 of the CPU that the thread runs on, or 0. Reading it traps, so no dispatched call may do it. */
#if defined(MAVCG_RUNNING_MIDR) /* a test's substitute, for cores that it does not run on */
uint32_t MAVCG_RUNNING_MIDR(void);
#define running_midr MAVCG_RUNNING_MIDR
#else
MAVCG_PRIVATE uint32_t running_midr(void);
#endif

#endif
