/* The running process, as the operating system provides it: process_linux.c, platform_macos.c. */
#ifndef MAVCG_PROCESS_H
#define MAVCG_PROCESS_H

#include "internal.h"

MAVCG_PRIVATE uint32_t process_id(void);

/* Allocate a zeroed word that the kernel sets to zero again in every forked child. Returns NULL if the system cannot do
 * that. */
MAVCG_PRIVATE uint64_t *word_cleared_in_children(void);

/* Free a word of word_cleared_in_children. */
MAVCG_PRIVATE void free_cleared_word(uint64_t *word);

MAVCG_PRIVATE void yield_cpu(void);

/* Return the distance from the thread pointer to struct rseq, or 0 if the C library registers none. */
MAVCG_PRIVATE uint64_t rseq_offset(void);

/* Return the C library's list of environment variables; NULL if it does not exist, or not yet. */
MAVCG_PRIVATE char **environment(void);

/* True in a set-user-ID program, which must not trust its caller's environment. */
MAVCG_PRIVATE bool is_privileged(void);

#endif
