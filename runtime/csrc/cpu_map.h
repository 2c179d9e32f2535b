/* MAVCG_CPU_MAP: the core type that each CPU counts as, such as "0-3=cortex-a55,4-5=cortex-a75,6,7=exynos-m4".
 *
 *   map   := entry ("," entry)*          entry := cpus ("," cpus)* "=" core
 *   cpus  := N | N-M | "all" | "*"       core  := a name that the library knows, or "generic"
 *
 * Blanks around any of these are skipped. Where two entries name a CPU the later one counts; all and * name the CPUs
 * that no number names. A map with any fault is not used at all: half a map would describe a machine that nobody meant. */
#ifndef MAVCG_CPU_MAP_H
#define MAVCG_CPU_MAP_H

#include "internal.h"

/* A fault of a map. */
struct map_fault {
    const char *what; /* NULL: none */
    const char *part; /* the faulty part of the map */
    size_t bytes;
};

/* The core id that the map gives this CPU, MAVCG_NOT_KNOWN where it gives none. With MAVCG_NO_CPU it is also checked
 * that each core that is named can run here. highest: the highest CPU number that the map names, or -1; rest: the id of
 * all CPUs that it does not number, or MAVCG_NOT_KNOWN. */
MAVCG_PRIVATE unsigned map_lookup(const struct mavcg_set *set, const char *map, int cpu, int *highest, unsigned *rest,
                                  struct map_fault *fault);

#endif
