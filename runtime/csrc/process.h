/* The process that we run in, by the operating system: process_linux.c, platform_macos.c. */
#ifndef MAVCG_PROCESS_H
#define MAVCG_PROCESS_H

#include "internal.h"

MAVCG_PRIVATE uint32_t process_id(void);

/* A word of zero-initialised memory that the kernel sets to zero again in every forked child; NULL where the system
 * cannot do that. */
MAVCG_PRIVATE uint64_t *word_cleared_in_children(void);

/* Give such a word back. */
MAVCG_PRIVATE void free_cleared_word(uint64_t *word);

MAVCG_PRIVATE void yield_cpu(void);

/* Distance from the thread pointer to struct rseq, or 0 where the C library registers none. */
MAVCG_PRIVATE uint64_t rseq_offset(void);

/* The C library's list of environment variables; NULL where there is none, or not yet. */
MAVCG_PRIVATE char **environment(void);

/* True in a set-user-ID program, which must not use its caller's environment. */
MAVCG_PRIVATE bool is_privileged(void);

#endif
