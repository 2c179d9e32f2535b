/* The core types of CPUs in sysfs. */
#ifndef MAVCG_SYSFS_H
#define MAVCG_SYSFS_H

#include "internal.h"

/* Return MIDR_EL1 of a CPU, or 0 if it cannot be read. An offline CPU has no such file. Source: Linux
 * Documentation/arch/arm64/cpu-feature-registers.rst. */
MAVCG_PRIVATE uint32_t sysfs_midr(const struct mavcg_machine *machine, unsigned cpu);

/* Call visit for each CPU that is present, offline ones included; CPUs that could only be hot-plugged are not. Returns
 * the number of CPUs, 0 if the file cannot be read. */
MAVCG_PRIVATE unsigned each_present_cpu(const struct mavcg_machine *machine, void (*visit)(void *, unsigned),
                                        void *context);

enum hybrid_list { LIST_CORE, LIST_ATOM, LIST_LOW_POWER_ATOM, HYBRID_LISTS };

/* Call visit for each CPU of one kind of an Intel hybrid. Returns the number of CPUs. Each kind has its own performance
 * counters, with a "cpus" file (Linux tools/perf/Documentation/intel-hybrid.txt; arch/x86/events/intel/core.c names the
 * three kinds). */
MAVCG_PRIVATE unsigned each_hybrid_cpu(const struct mavcg_machine *machine, enum hybrid_list list,
                                       void (*visit)(void *, unsigned), void *context);

#endif
