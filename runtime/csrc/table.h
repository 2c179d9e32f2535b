/* The core type of each CPU, from MAVCG_CPU_MAP, then sysfs, then /proc/cpuinfo, then the registers of the running CPU.
 * The first answer for a CPU is kept: if several threads fill one table at the same time, they get the same results. */
#ifndef MAVCG_TABLE_H
#define MAVCG_TABLE_H

#include "cpu_map.h"
#include "internal.h"

/* Return the core id of a CPU; MAVCG_NOT_KNOWN if the table has none yet. */
MAVCG_PRIVATE unsigned known_core(const struct mavcg_table *table, unsigned cpu);

/* Return the name of a source of facts; "" for a number that is not an enum mavcg_how. */
MAVCG_PRIVATE const char *source_text(unsigned how);

/* Store a CPU's core id, unless it already has one. seen: as in struct mavcg_table. */
MAVCG_PRIVATE void store_core(struct mavcg_table *table, unsigned cpu, unsigned id, enum mavcg_how how, uint32_t seen);

/* Store the core id of all CPUs that have none yet; one line reports them all. */
MAVCG_PRIVATE void store_unknown_cpus(struct mavcg_table *table, unsigned id, enum mavcg_how how, uint32_t seen);

/* Fill the table from the text of a map. If the map has a fault, nothing is stored and the fault is returned. */
MAVCG_PRIVATE struct map_fault fill_from_map(struct mavcg_table *table, const char *map);

/* Fill in all CPUs, or (with `only`) one CPU that is used for the first time. A CPU that no source identifies stays
 * MAVCG_NOT_KNOWN: it may be offline, and is looked up again when it is used. Returns false if the thread left that CPU
 * before it was identified. */
MAVCG_PRIVATE bool fill_table(const struct mavcg_machine *machine, struct mavcg_table *table, int only);

#endif
