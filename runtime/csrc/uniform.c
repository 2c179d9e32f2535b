/* Compares the core types of all CPUs. */
#include "uniform.h"

#include "internal.h"
#include "sysfs.h"
#include "table.h"

struct comparison {
    const struct mavcg_table *table;
    unsigned id; /* of the CPUs visited so far; MAVCG_NOT_KNOWN if they differ */
};

enum { NONE_VISITED = 256 };

static void compare_core(void *context, unsigned cpu) {
    struct comparison *comparison = context;
    unsigned id = known_core(comparison->table, cpu);
    if (comparison->id == NONE_VISITED) comparison->id = id;
    else if (id != comparison->id) comparison->id = MAVCG_NOT_KNOWN;
}

/* Without the list of CPUs, all that Linux could have: only a map and the identity of an x86 processor fill the table for
 * all. The small selector reads the list on Arm alone. */
MAVCG_PRIVATE unsigned uniform_core(const struct mavcg_machine *machine, const struct mavcg_table *table) {
    struct comparison comparison = {table, NONE_VISITED};
    if ((!MAVCG_SMALL || MAVCG_ARM_SOURCES) && each_present_cpu(machine, compare_core, &comparison))
        return comparison.id;
    if (MAVCG_SMALL && MAVCG_ARM_SOURCES) return MAVCG_NOT_KNOWN;
    for (unsigned cpu = 0; cpu < MAVCG_CPUS; cpu++) compare_core(&comparison, cpu);
    return comparison.id;
}
