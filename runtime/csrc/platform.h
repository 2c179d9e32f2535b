/* Files, the running CPU and its registers, by the operating system: platform_linux.c, platform_macos.c. */
#ifndef MAVCG_PLATFORM_H
#define MAVCG_PLATFORM_H

#include "internal.h"

/* A part of a line; laid out as struct iovec. */
struct text_part {
    const char *text;
    size_t bytes;
};

/* File descriptor, open for reading; negative on failure. */
MAVCG_PRIVATE int open_file(const char *path);

/* Bytes read, 0 at the end of the file, negative on failure. */
MAVCG_PRIVATE long read_file(int fd, char *buffer, size_t bytes);

MAVCG_PRIVATE void close_file(int fd);

/* Write a line in one call, so that lines of several processes do not mix. A closed stderr is no error. */
MAVCG_PRIVATE void write_stderr(const struct text_part *parts, int count);

/* The CPU we run on, by a query of the kernel; negative when a sandbox denies it. */
MAVCG_PRIVATE int query_cpu(void);

/* AT_HWCAP of an Arm kernel: features that every CPU of this machine has. 0 on another architecture. */
MAVCG_PRIVATE uint32_t arm_hwcap(void);

/* MIDR_EL1 of the CPU we run on, or 0. It traps: no dispatched call may read it. */
#if defined(MAVCG_RUNNING_MIDR) /* a test's own: for cores that it does not run on */
uint32_t MAVCG_RUNNING_MIDR(void);
#define running_midr MAVCG_RUNNING_MIDR
#else
MAVCG_PRIVATE uint32_t running_midr(void);
#endif

#endif
