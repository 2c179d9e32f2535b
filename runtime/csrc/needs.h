/* The contract between a version and the machine: a version runs only where the kernel offers every extension of the
 * instruction set that its code needs. On Arm these are the features in AT_HWCAP and AT_HWCAP2, which all CPUs of the
 * machine have and which the kernel, a hypervisor or a boot option may hide although MIDR_EL1 names a core that has them;
 * on x86 those of CPUID, with the registers that XCR0 enables. A version with AMX also needs the system's permission. */
#ifndef MAVCG_NEEDS_H
#define MAVCG_NEEDS_H

#include "internal.h"

/* True if this machine offers everything that a version needs. The generic version needs nothing. */
MAVCG_PRIVATE bool can_run(const struct mavcg_set *set, unsigned id);

#endif
