/* Compares the instruction sets that a version needs with those that CPUID reports.
 *
 * Source: Intel SDM volume 2A and AMD APM volume 3, CPUID. */
#include "x86_features.h"

#include "internal.h"

#if defined(__x86_64__)
#if !defined(MAVCG_CPUID)
MAVCG_PRIVATE uint32_t cpuid(uint32_t leaf, uint32_t subleaf, enum cpuid_register register_number) {
    uint32_t registers[4];
    __asm__ volatile("cpuid"
                     : "=a"(registers[EAX]), "=b"(registers[EBX]), "=c"(registers[ECX]), "=d"(registers[EDX])
                     : "a"(leaf), "c"(subleaf));
    return registers[register_number];
}
#endif

/* Read the CPUID and XCR0 words whose bits x86_needs.h lists. */
static void read_x86_features(uint32_t words[X86_WORDS]) {
    bool has_7 = cpuid(0, 0, EAX) >= 7;
    words[0] = cpuid(1, 0, ECX);
    words[1] = has_7 ? cpuid(7, 0, EBX) : 0;
    words[2] = has_7 ? cpuid(7, 0, ECX) : 0;
    words[3] = has_7 ? cpuid(7, 0, EDX) : 0;
    words[4] = has_7 && cpuid(7, 0, EAX) >= 1 ? cpuid(7, 1, EAX) : 0;
    words[5] = cpuid(0x80000000, 0, EAX) > 0x80000000 ? cpuid(0x80000001, 0, ECX) : 0;
    words[6] = 0;
    if (words[0] >> 27 & 1) { /* OSXSAVE: XCR0, the registers that the system saves, can be read */
        uint32_t high;
        __asm__ volatile("xgetbv" : "=a"(words[6]), "=d"(high) : "c"(0));
    }
}

MAVCG_PRIVATE bool x86_can_run(const struct mavcg_set *set, unsigned id) {
    uint32_t features[X86_WORDS], missing = 0;
    if (id < MAVCG_FIRST_CORE) return true;
    read_x86_features(features);
    for (int word = 0; word < X86_WORDS; word++)
        missing |= set->x86_needs[id - MAVCG_FIRST_CORE][word] & ~features[word];
    return !missing;
}
#else
MAVCG_PRIVATE bool x86_can_run(const struct mavcg_set *set, unsigned id) { return (void)set, (void)id, true; }
#endif
