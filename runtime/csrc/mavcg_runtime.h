/* The contract between the code that mavcg generates and its run-time selector.
 *
 * A multi-versioned function f has in its own object:
 *
 *     f                  the dispatcher: picks a version and tail-calls it
 *     f.versions[n]      code addresses by core id: [0] calls the runtime, [1] is generic, [2..] the set's cores
 *     f.runs[n]          zero; runs per version while MAVCG_TRACE=1
 *     f.desc             struct mavcg_function
 *
 * The runtime brings one copy a program or library of everything below for each core set. A set is named by a hash
 * of its core names and of MAVCG_ABI, so objects made for different sets live side by side, and objects of one set
 * share one table: the symbols are weak and hidden.
 *
 * Dispatch, in line and without a call:
 *
 *     offset = mavcg_rseq_offset_<SET>                    relaxed load; 0: use versions[0]
 *     cpu    = *(uint32_t *)(thread pointer + offset + 4)  struct rseq.cpu_id; >= MAVCG_CPUS: use versions[0]
 *     id     = mavcg_core_of_cpu_<SET>[cpu]               relaxed load; 0 (not known yet) selects versions[0]
 *     tail call versions[id]
 *
 * All zero is a valid state: then every call uses versions[0], which is
 *
 *     f.slow(args) { tail call mavcg_select_<SET>(&f.desc)(args) }
 */
#ifndef MAVCG_RUNTIME_H
#define MAVCG_RUNTIME_H

#include <stdint.h>

/* Incremented when anything in this file or in struct mavcg_state changes; runtime/coreset.py has the same number. */
#if !defined(MAVCG_ABI) /* a test may define an older or later ABI */
#define MAVCG_ABI 2
#endif

/* Covers every CPU number that Linux can assign: CONFIG_NR_CPUS is at most 8192 on x86-64 and 4096 on arm64. */
#define MAVCG_CPUS 8192

/* Offset of struct rseq.cpu_id, Linux include/uapi/linux/rseq.h: negative in a thread that is not registered. */
#define MAVCG_RSEQ_CPU_ID 4

enum { MAVCG_NOT_KNOWN = 0, MAVCG_GENERIC = 1, MAVCG_FIRST_CORE = 2 };

struct mavcg_function {
    const char *name;
    void *const *versions;       /* [2 + cores] */
    uint64_t *runs;              /* [2 + cores] */
    struct mavcg_function *next; /* used by the runtime: NULL until this function is first counted */
};

#define MAVCG_PASTE(stem, set) mavcg_##stem##_##set
#define MAVCG_NAME(stem, set) MAVCG_PASTE(stem, set)

/* Declares the runtime of one set, and the dispatch above in C, for code that is not generated. */
#define MAVCG_DECLARE(set)                                                                                    \
    extern uint64_t MAVCG_NAME(rseq_offset, set) __attribute__((visibility("hidden")));                       \
    extern uint8_t MAVCG_NAME(core_of_cpu, set)[MAVCG_CPUS] __attribute__((visibility("hidden")));            \
    __attribute__((visibility("hidden"))) void *MAVCG_NAME(select, set)(struct mavcg_function * function);    \
    static inline void *MAVCG_NAME(version, set)(const struct mavcg_function *function) {                     \
        uint64_t offset = __atomic_load_n(&MAVCG_NAME(rseq_offset, set), __ATOMIC_RELAXED);                   \
        unsigned id = MAVCG_NOT_KNOWN;                                                                        \
        if (offset) {                                                                                         \
            const char *rseq = (const char *)__builtin_thread_pointer() + offset;                             \
            uint32_t cpu = *(const volatile uint32_t *)(rseq + MAVCG_RSEQ_CPU_ID);                            \
            if (cpu < MAVCG_CPUS) id = __atomic_load_n(&MAVCG_NAME(core_of_cpu, set)[cpu], __ATOMIC_RELAXED); \
        }                                                                                                     \
        return function->versions[id];                                                                        \
    }

#endif
