/* The running process on macOS. Every symbol is imported weakly. */
#include "internal.h"
#include "process.h"

#if defined(__APPLE__)

extern int getpid(void) __attribute__((weak_import));
extern int sched_yield(void) __attribute__((weak_import));
extern int issetugid(void) __attribute__((weak_import));
extern char ***_NSGetEnviron(void) __attribute__((weak_import));

MAVCG_PRIVATE uint32_t process_id(void) { return getpid ? (uint32_t)getpid() : 0; }

/* Not needed: macOS has no PID namespaces, so the process number is unique. */
MAVCG_PRIVATE uint64_t *word_cleared_in_children(void) { return NULL; }

MAVCG_PRIVATE void free_cleared_word(uint64_t *word) { (void)word; }

MAVCG_PRIVATE void yield_cpu(void) {
    if (sched_yield) sched_yield();
}

MAVCG_PRIVATE uint64_t rseq_offset(void) { return 0; }

MAVCG_PRIVATE char **environment(void) { return _NSGetEnviron ? *_NSGetEnviron() : NULL; }

MAVCG_PRIVATE bool is_privileged(void) { return !issetugid || issetugid(); }

#endif
