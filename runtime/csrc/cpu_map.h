/* MAVCG_CPU_MAP: the core type that each CPU counts as, such as "0-3=cortex-a55,4-5=cortex-a75,6,7=exynos-m4".
 *
 *   map   := entry ("," entry)*          entry := cpus ("," cpus)* "=" core
 *   cpus  := N | N-M | "all" | "*"       core  := a name that the library knows, or "generic"
 *
 * Blanks around any of these are skipped. If two entries name the same CPU, the later one counts; "all" and "*" stand
 * for the CPUs that no number names. A map with any fault is not used at all: using the valid part alone would describe
 * a machine that nobody meant. */
#ifndef MAVCG_CPU_MAP_H
#define MAVCG_CPU_MAP_H

#include "internal.h"

/* A fault in a map. */
struct map_fault {
    const char *what; /* description of the fault; NULL: no fault */
    const char *part; /* the faulty part of the map */
    size_t bytes;
};

/* Return the core id that the map gives this CPU, or MAVCG_NOT_KNOWN if it gives none. With cpu = MAVCG_NO_CPU, also
 * check that every named core can run on this processor. highest: receives the highest CPU number that the map names,
 * or -1. rest: receives the core id of all CPUs without a number in the map, or MAVCG_NOT_KNOWN. */
MAVCG_PRIVATE unsigned map_lookup(const struct mavcg_set *set, const char *map, int cpu, int *highest, unsigned *rest,
                                  struct map_fault *fault);

#endif
