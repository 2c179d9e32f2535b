/* Identification of the running x86 processor by CPUID. */
#ifndef MAVCG_X86_H
#define MAVCG_X86_H

#include "internal.h"

/* True for a processor with several kinds of cores. */
MAVCG_PRIVATE bool cpuid_says_hybrid(void);

/* Return the kind of the running core; X86_NO_KIND if the processor is not a hybrid. */
MAVCG_PRIVATE enum x86_kind cpuid_kind(void);

/* Return vendor, family and model. */
MAVCG_PRIVATE struct x86_identity cpuid_identity(void);

/* Return the processor that this one is at least, by what CPUID says of it beside its model. A hypervisor may show a
 * model that is older than the processor, and all of its instruction sets: no model of Intel's family 6 before Sapphire
 * Rapids has AMX, so that another one with AMX is taken for that. */
MAVCG_PRIVATE struct x86_identity oldest_possible(struct x86_identity identity);

#endif
