/* Parser of /proc/cpuinfo: for each CPU a "processor : N" line, followed by lines that describe it.
 *
 * arm64: "CPU implementer", "CPU variant", "CPU part". Kernels before 3.19 list all processors and then print these
 * lines once, for the CPU that reads the file (Linux 3.10 arch/arm64/kernel/setup.c, c_show): such a shared part says
 * nothing about the other CPUs. x86: "vendor_id", "cpu family", "model", the same for all CPUs, even of hybrids. */
#ifndef MAVCG_CPUINFO_H
#define MAVCG_CPUINFO_H

#include "internal.h"

/* Callbacks for the facts in the file. listed and x86 are for recorded files. */
struct cpuinfo_reader {
    void (*listed)(void *context, unsigned cpu); /* a "processor" line; may be NULL */
    /* A CPU with its part; is_shared: one part follows several processors. */
    void (*part)(void *context, unsigned cpu, uint32_t midr, bool is_shared);
    void (*x86)(void *context, struct x86_identity identity);
    void *context;
};

MAVCG_PRIVATE void read_cpuinfo(const struct mavcg_machine *machine, const struct cpuinfo_reader *reader);

#endif
