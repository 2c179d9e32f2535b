/* Core types of CPUs in sysfs. */
#ifndef MAVCG_SYSFS_H
#define MAVCG_SYSFS_H

#include "internal.h"

/* MIDR_EL1 of a CPU, or 0: Linux Documentation/arch/arm64/cpu-feature-registers.rst. An offline CPU has no file. */
MAVCG_PRIVATE uint32_t sysfs_midr(const char *root, unsigned cpu);

/* Call visit for each CPU that is present, offline ones too; CPUs that could only be added are left out. Returns their
 * number, 0 where the file cannot be read. */
MAVCG_PRIVATE unsigned each_present_cpu(const char *root, void (*visit)(void *, unsigned), void *context);

enum hybrid_list { LIST_CORE, LIST_ATOM, LIST_LOW_POWER_ATOM, HYBRID_LISTS };

/* Call visit for each CPU of one kind of an Intel hybrid. Returns their number. Each kind has performance counters of
 * its own, with a "cpus" file (Linux tools/perf/Documentation/intel-hybrid.txt; arch/x86/events/intel/core.c names the
 * three). */
MAVCG_PRIVATE unsigned each_hybrid_cpu(const char *root, enum hybrid_list list, void (*visit)(void *, unsigned),
                                       void *context);

#endif
