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

#endif
