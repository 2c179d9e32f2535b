/* Identifies the running x86 processor.
 *
 * Source: Intel SDM volume 2A and AMD APM volume 3, CPUID: leaf 0 (vendor), 01H (family, model), 07H (EDX bit 15:
 * hybrid part, bit 24: AMX's tiles), 1AH (EAX[31:24]: 20H Atom, 40H Core). */
#include "x86.h"

#include "internal.h"
#include "x86_features.h"

#if defined(__x86_64__)
MAVCG_PRIVATE bool cpuid_says_hybrid(void) { return cpuid(0, 0, EAX) >= 0x1A && (cpuid(7, 0, EDX) >> 15 & 1); }

MAVCG_PRIVATE enum x86_kind cpuid_kind(void) {
    uint32_t kind = cpuid(0x1A, 0, EAX) >> 24;
    return kind == 0x20 ? X86_ATOM : kind == 0x40 ? X86_CORE : X86_NO_KIND;
}

MAVCG_PRIVATE struct x86_identity cpuid_identity(void) {
    enum { GENU = 0x756E6547, AUTH = 0x68747541 }; /* first letters of GenuineIntel and AuthenticAMD */
    uint32_t vendor = cpuid(0, 0, EBX), signature = cpuid(1, 0, EAX);
    uint32_t family = signature >> 8 & 0xF, model = signature >> 4 & 0xF;
    if (family == 6 || family == 15) model |= signature >> 12 & 0xF0;
    if (family == 15) family += signature >> 20 & 0xFF;
    struct x86_identity identity = {vendor == GENU   ? X86_INTEL
                                    : vendor == AUTH ? X86_AMD
                                                     : X86_OTHER,
                                    (uint16_t)family, (uint16_t)model};
    return identity;
}

MAVCG_PRIVATE struct x86_identity oldest_possible(struct x86_identity identity) {
    enum { SAPPHIRE_RAPIDS = 0x8F, EMERALD_RAPIDS = 0xCF, GRANITE_RAPIDS = 0xAD, GRANITE_RAPIDS_D = 0xAE };
    if (identity.vendor != X86_INTEL || identity.family != 6) return identity;
    if (identity.model == SAPPHIRE_RAPIDS || identity.model == EMERALD_RAPIDS || identity.model == GRANITE_RAPIDS ||
        identity.model == GRANITE_RAPIDS_D)
        return identity;
    if (cpuid(0, 0, EAX) >= 7 && (cpuid(7, 0, EDX) >> 24 & 1)) identity.model = SAPPHIRE_RAPIDS;
    return identity;
}
#else
MAVCG_PRIVATE bool cpuid_says_hybrid(void) { return false; }

MAVCG_PRIVATE enum x86_kind cpuid_kind(void) { return X86_NO_KIND; }

MAVCG_PRIVATE struct x86_identity cpuid_identity(void) {
    struct x86_identity unknown = {X86_OTHER, 0, 0};
    return unknown;
}

MAVCG_PRIVATE struct x86_identity oldest_possible(struct x86_identity identity) { return identity; }
#endif
