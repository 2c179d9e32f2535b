/* The core type of each CPU: by MAVCG_CPU_MAP, then sysfs, then /proc/cpuinfo, then the registers of the CPU we run on.
 * Only the first answer for a CPU is kept, so that several threads may fill one table at the same time: they get the
 * same answers. */
#ifndef MAVCG_TABLE_H
#define MAVCG_TABLE_H

#include "cpu_map.h"
#include "internal.h"

/* The core id of a CPU; MAVCG_NOT_KNOWN where the table has none yet. */
MAVCG_PRIVATE unsigned known_core(const struct mavcg_table *table, unsigned cpu);

/* A source of facts as text; "" for a number that is no enum mavcg_how. */
MAVCG_PRIVATE const char *source_text(unsigned how);

/* Store a CPU's core id, unless it has one. seen: as struct mavcg_table has it. */
MAVCG_PRIVATE void store_core(struct mavcg_table *table, unsigned cpu, unsigned id, enum mavcg_how how, uint32_t seen);

/* Store the core id of all CPUs that have none; one line reports them. */
MAVCG_PRIVATE void store_unknown_cpus(struct mavcg_table *table, unsigned id, enum mavcg_how how, uint32_t seen);

/* Fill the table from a map text. Nothing is stored when the map has a fault, which is then returned. */
MAVCG_PRIVATE struct map_fault fill_from_map(struct mavcg_table *table, const char *map);

/* Fill in all CPUs, or only one that has just been seen for the first time. A CPU that no source knows yet stays
 * MAVCG_NOT_KNOWN: it may be offline, and is looked up again when it runs. False where the thread left that one CPU
 * before it had identified itself. */
MAVCG_PRIVATE bool fill_table(const struct mavcg_machine *machine, struct mavcg_table *table, int only);

#endif
