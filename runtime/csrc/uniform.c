/* Compares the core types of all CPUs. */
#include "uniform.h"

#include "internal.h"
#include "sysfs.h"
#include "table.h"

struct comparison {
    const struct mavcg_table *table;
    unsigned id; /* of the CPUs visited so far */
    bool differs;
};

static void compare_core(void *context, unsigned cpu) {
    struct comparison *comparison = context;
    unsigned id = known_core(comparison->table, cpu);
    if (comparison->id == MAVCG_NOT_KNOWN) comparison->id = id;
    if (id == MAVCG_NOT_KNOWN || id != comparison->id) comparison->differs = true;
}

MAVCG_PRIVATE unsigned uniform_core(const struct mavcg_machine *machine, const struct mavcg_table *table) {
    struct comparison comparison = {table, MAVCG_NOT_KNOWN, false};
    if (!each_present_cpu(machine->root, compare_core, &comparison))
        for (unsigned cpu = 0; cpu < MAVCG_CPUS && !comparison.differs; cpu++) compare_core(&comparison, cpu);
    return comparison.differs ? MAVCG_NOT_KNOWN : comparison.id;
}
