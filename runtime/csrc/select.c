/* Handles calls that cannot be dispatched in line. */
#include "select.h"

#include "internal.h"
#include "mavcg_rt.h"
#include "platform.h"
#include "process.h"
#include "settings.h"
#include "start.h"
#include "table.h"
#include "trace.h"

/* Return the CPU that the thread runs on, or MAVCG_NO_CPU. */
static int running_cpu(const struct mavcg_set *set) {
    /* A trace of runs keeps dispatchers from reading the CPU's number: what they read is then 0. */
    uint64_t offset = MAVCG_SMALL ? __atomic_load_n(set->rseq_offset, __ATOMIC_RELAXED) : rseq_offset();
    if (offset) {
        const char *rseq = (const char *)__builtin_thread_pointer() + offset;
        int32_t cpu = *(const volatile int32_t *)(rseq + MAVCG_RSEQ_CPU_ID);
        if (cpu >= 0) return cpu;
    }
    if (__atomic_load_n(&set->state->cpu_denied, __ATOMIC_RELAXED)) return MAVCG_NO_CPU;
    int cpu = query_cpu();
    if (cpu < 0) __atomic_store_n(&set->state->cpu_denied, 1, __ATOMIC_RELAXED);
    return cpu < 0 ? MAVCG_NO_CPU : cpu;
}

/* Find the core id of a CPU at its first use, if the CPU was offline before, or if only its own registers identify it.
 * Returns MAVCG_NOT_KNOWN if the thread was moved to another CPU meanwhile. */
static unsigned find_new_cpu(const struct mavcg_set *set, int cpu) {
    struct mavcg_table table = shared_table(set,
                                            MAVCG_SMALL ? 0 : __atomic_load_n(&set->state->trace, __ATOMIC_RELAXED));
    /* Store "unknown" only if the thread has stayed on this CPU: otherwise it may have queried another CPU. */
    if (fill_table(&this_machine, &table, cpu) && running_cpu(set) == cpu)
        store_core(&table, (unsigned)cpu, MAVCG_GENERIC, MAVCG_HOW_UNKNOWN, 0);
    return known_core(&table, (unsigned)cpu);
}

/* Find the core id at a CPU's first use. */
MAVCG_RARE static unsigned find_core(const struct mavcg_set *set) {
    for (int attempts = 0; attempts < 16; attempts++) { /* the thread may be moved each time */
        int cpu = running_cpu(set);
        if (cpu < 0 || cpu >= MAVCG_CPUS) return MAVCG_GENERIC;
        unsigned id = __atomic_load_n(&set->core_of_cpu[cpu], __ATOMIC_RELAXED);
        if (!id) id = find_new_cpu(set, cpu);
        if (id) return id;
    }
    return MAVCG_GENERIC;
}

static unsigned running_core(const struct mavcg_set *set) {
    unsigned only = __atomic_load_n(&set->state->only_core, __ATOMIC_RELAXED);
    if (only) return only;
    unsigned cpu = (unsigned)running_cpu(set);
    unsigned id = cpu < MAVCG_CPUS ? __atomic_load_n(&set->core_of_cpu[cpu], __ATOMIC_RELAXED) : MAVCG_NOT_KNOWN;
    return id ? id : find_core(set);
}

/* True if libmavcg_rt.so serves the set of a small selector. */
static bool is_served(void) { return MAVCG_SMALL && &mavcg_rt_entries; }

MAVCG_PRIVATE void *select_in(const struct mavcg_set *set, struct mavcg_function *function) {
    if (is_served()) return mavcg_rt_entries.select(set, function);
    if (!__atomic_load_n(&set->state->ready, __ATOMIC_ACQUIRE)) start_selecting(set);
    unsigned id = running_core(set);
    if (!MAVCG_SMALL && __atomic_load_n(&set->state->trace, __ATOMIC_RELAXED) & TRACE_RUNS)
        count_run(set, function, id);
    return function->versions[id];
}

/* If a dispatched call came earlier, glibc's references may not have been bound at that time: publish the offset
 * again. */
MAVCG_PRIVATE void start_set(const struct mavcg_set *set) {
    if (is_served()) {
        mavcg_rt_entries.start(set);
        return;
    }
    if (MAVCG_SMALL) report_missing_settings();
    if (__atomic_load_n(&set->state->ready, __ATOMIC_ACQUIRE)) publish_rseq(set);
    else start_selecting(set);
}

MAVCG_PRIVATE void finish_set(const struct mavcg_set *set) {
    if (is_served()) mavcg_rt_entries.finish(set);
    if (MAVCG_SMALL || !(__atomic_load_n(&set->state->trace, __ATOMIC_RELAXED) & TRACE_RUNS)) return;
    if (!__atomic_exchange_n(&set->state->printed, 1, __ATOMIC_RELAXED)) print_all_runs(set);
}
