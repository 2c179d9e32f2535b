/* Fills the table of a core set.
 *
 * There is no lock: several threads may fill the table at the same time (they get the same results), a signal handler
 * may interrupt this and call a dispatched function, and a fork leaves nothing locked. */
#include "start.h"

#include "internal.h"
#include "process.h"
#include "settings.h"
#include "table.h"
#include "trace.h"
#include "uniform.h"

MAVCG_PRIVATE const struct mavcg_machine this_machine = {MAVCG_ROOT, MAVCG_ARM_SOURCES, MAVCG_X86_SOURCES, true};

MAVCG_PRIVATE struct mavcg_table shared_table(const struct mavcg_set *set, uint32_t trace) {
    struct mavcg_table table;
    table.id = set->core_of_cpu;
    table.report = (trace & TRACE_CPUS) != 0;
    if (MAVCG_READS_RECORDS) table.how = NULL, table.seen = NULL;
#if defined(MAVCG_SHARED_SELECTOR)
    table.set = set;
#endif
    return table;
}

MAVCG_RARE MAVCG_PRIVATE void publish_rseq(const struct mavcg_set *set) {
    if (MAVCG_SMALL || !(__atomic_load_n(&set->state->trace, __ATOMIC_RELAXED) & TRACE_RUNS))
        __atomic_store_n(set->rseq_offset, rseq_offset(), __ATOMIC_RELAXED);
}

MAVCG_PRIVATE void start_selecting(const struct mavcg_set *set) {
    struct mavcg_table table = shared_table(set, 0);
    uint32_t trace = MAVCG_SMALL ? 0 : read_settings(set, &table);
    fill_table(&this_machine, &table, MAVCG_NO_CPU);
    unsigned only = uniform_core(&this_machine, &table);
    table.report = false;
    if (!MAVCG_SMALL && only) store_unknown_cpus(&table, only, MAVCG_HOW_UNKNOWN, 0);
    if (!MAVCG_SMALL && trace & TRACE_RUNS) start_counting();
    if (!MAVCG_SMALL) __atomic_store_n(&set->state->trace, trace, __ATOMIC_RELAXED);
    __atomic_store_n(&set->state->only_core, only, __ATOMIC_RELAXED);
    publish_rseq(set);
    __atomic_store_n(&set->state->ready, 1, __ATOMIC_RELEASE);
}
