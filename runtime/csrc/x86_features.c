/* Reads the instruction sets of this processor, as CPUID reports them.
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

MAVCG_PRIVATE void read_x86_features(uint32_t words[MAVCG_NEED_WORDS]) {
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
#endif
