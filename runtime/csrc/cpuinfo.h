/* /proc/cpuinfo: for each CPU a "processor : N" line and what describes it.
 *
 * arm64: "CPU implementer", "CPU variant", "CPU part". Kernels before 3.19 list all processors and then print these
 * once, for the CPU that reads the file (Linux 3.10 arch/arm64/kernel/setup.c, c_show): such a shared part is no fact
 * about the other CPUs. x86: "vendor_id", "cpu family", "model", the same for all CPUs, hybrids too. */
#ifndef MAVCG_CPUINFO_H
#define MAVCG_CPUINFO_H

#include "internal.h"

/* Called with what the file says. */
struct cpuinfo_reader {
    void (*listed)(void *context, unsigned cpu);              /* a processor line; may be NULL */
    void (*part)(void *context, unsigned cpu, uint32_t midr); /* a CPU and its own part */
    void (*shared)(void *context, uint32_t midr);             /* one part after several processors */
    void (*x86)(void *context, struct x86_identity identity);
    void *context;
};

MAVCG_PRIVATE void read_cpuinfo(const char *root, const struct cpuinfo_reader *reader);

#endif
