/* x86 instruction sets of the running CPU, by CPUID. Under a hypervisor CPUID traps: no dispatched call may execute
 * it. */
#ifndef MAVCG_X86_FEATURES_H
#define MAVCG_X86_FEATURES_H

#include "internal.h"

#if defined(__x86_64__)
enum cpuid_register { EAX, EBX, ECX, EDX };

#if defined(MAVCG_CPUID) /* a test's substitute, for processors that it does not run on */
uint32_t MAVCG_CPUID(uint32_t leaf, uint32_t subleaf, int register_number);
#define cpuid MAVCG_CPUID
#else
MAVCG_PRIVATE uint32_t cpuid(uint32_t leaf, uint32_t subleaf, enum cpuid_register register_number);
#endif

/* Read the words of CPUID and XCR0 whose bits x86_needs.h lists. */
MAVCG_PRIVATE void read_x86_features(uint32_t words[MAVCG_NEED_WORDS]);
#endif

#endif
