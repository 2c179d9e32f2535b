/* x86 by CPUID, of the CPU we run on. Under a hypervisor CPUID traps: never on the way of a call.
 *
 * Intel SDM volume 2A and AMD APM volume 3, CPUID: leaf 0 (vendor), 01H (family, model), 07H (EDX bit 15: hybrid part),
 * 1AH (EAX[31:24]: 20H Atom, 40H Core). */

#if defined(__x86_64__)
enum cpuid_register { EAX, EBX, ECX, EDX };

#if defined(MAVCG_CPUID) /* a test's own: answers for processors that it does not run on */
uint32_t MAVCG_CPUID(uint32_t leaf, uint32_t subleaf, int wanted);
#define cpuid MAVCG_CPUID
#else
MAVCG_STATIC uint32_t cpuid(uint32_t leaf, uint32_t subleaf, enum cpuid_register wanted) {
    uint32_t registers[4];
    __asm__ volatile("cpuid"
                     : "=a"(registers[EAX]), "=b"(registers[EBX]), "=c"(registers[ECX]), "=d"(registers[EDX])
                     : "a"(leaf), "c"(subleaf));
    return registers[wanted];
}
#endif

MAVCG_STATIC int cpuid_says_hybrid(void) {
    return cpuid(0, 0, EAX) >= 0x1A && (cpuid(7, 0, EDX) >> 15 & 1);
}

MAVCG_STATIC enum x86_kind cpuid_kind(void) {
    uint32_t kind = cpuid(0x1A, 0, EAX) >> 24;
    return kind == 0x20 ? X86_ATOM : kind == 0x40 ? X86_CORE : X86_NO_KIND;
}

MAVCG_STATIC struct x86_identity cpuid_identity(void) {
    enum { GENU = 0x756E6547, AUTH = 0x68747541 }; /* the first letters of GenuineIntel and AuthenticAMD */
    uint32_t vendor = cpuid(0, 0, EBX), signature = cpuid(1, 0, EAX);
    uint32_t family = signature >> 8 & 0xF, model = signature >> 4 & 0xF;
    if (family == 6 || family == 15) model |= signature >> 12 & 0xF0;
    if (family == 15) family += signature >> 20 & 0xFF;
    struct x86_identity identity = {vendor == GENU ? X86_INTEL : vendor == AUTH ? X86_AMD : X86_OTHER, (uint16_t)family,
                                    (uint16_t)model};
    return identity;
}

/* The words that x86_needs.h lists the bits of. */
MAVCG_STATIC void x86_abilities(uint32_t words[X86_WORDS]) {
    int has_7 = cpuid(0, 0, EAX) >= 7;
    words[0] = cpuid(1, 0, ECX);
    words[1] = has_7 ? cpuid(7, 0, EBX) : 0;
    words[2] = has_7 ? cpuid(7, 0, ECX) : 0;
    words[3] = has_7 ? cpuid(7, 0, EDX) : 0;
    words[4] = has_7 && cpuid(7, 0, EAX) >= 1 ? cpuid(7, 1, EAX) : 0;
    words[5] = cpuid(0x80000000, 0, EAX) > 0x80000000 ? cpuid(0x80000001, 0, ECX) : 0;
    words[6] = 0;
    if (words[0] >> 27 & 1) { /* OSXSAVE: which registers the system saves */
        uint32_t high;
        __asm__ volatile("xgetbv" : "=a"(words[6]), "=d"(high) : "c"(0));
    }
}

/* Whether this processor has every instruction that the compiler could take for a version. A virtual machine may show
 * a processor's model without all of its instructions. */
MAVCG_STATIC int x86_can_run(const struct mavcg_set *set, unsigned id) {
    uint32_t has[X86_WORDS], lacks = 0;
    if (id < MAVCG_FIRST_CORE) return 1;
    x86_abilities(has);
    for (int word = 0; word < X86_WORDS; word++) lacks |= set->x86_needs[id - MAVCG_FIRST_CORE][word] & ~has[word];
    return !lacks;
}
#else
MAVCG_STATIC int cpuid_says_hybrid(void) { return 0; }

MAVCG_STATIC enum x86_kind cpuid_kind(void) { return X86_NO_KIND; }

MAVCG_STATIC struct x86_identity cpuid_identity(void) {
    struct x86_identity unknown = {X86_OTHER, 0, 0};
    return unknown;
}

MAVCG_STATIC int x86_can_run(const struct mavcg_set *set, unsigned id) { return (void)set, (void)id, 1; }
#endif
