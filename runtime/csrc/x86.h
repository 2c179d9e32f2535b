/* Identification of the x86 processor that we run on, by CPUID. */
#ifndef MAVCG_X86_H
#define MAVCG_X86_H

#include "internal.h"

/* True for a processor with cores of several kinds. */
MAVCG_PRIVATE bool cpuid_says_hybrid(void);

/* The kind of the core that we run on; X86_NO_KIND outside hybrids. */
MAVCG_PRIVATE enum x86_kind cpuid_kind(void);

/* Vendor, family and model. */
MAVCG_PRIVATE struct x86_identity cpuid_identity(void);

#endif
