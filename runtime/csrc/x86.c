/* Intel hybrids by CPUID, of the CPU we run on: Intel SDM volume 2A, CPUID leaf 07H (EDX bit 15: hybrid part) and
 * leaf 1AH (EAX[31:24]: 20H Atom, 40H Core). Under a hypervisor CPUID traps: never on the way of a call. */

#if defined(__x86_64__)
MAVCG_STATIC void cpuid(uint32_t leaf, uint32_t registers[4]) {
    __asm__ volatile("cpuid"
                     : "=a"(registers[0]), "=b"(registers[1]), "=c"(registers[2]), "=d"(registers[3])
                     : "a"(leaf), "c"(0));
}

MAVCG_STATIC int cpuid_says_hybrid(void) {
    uint32_t registers[4];
    cpuid(0, registers);
    if (registers[0] < 0x1A) return 0;
    cpuid(7, registers);
    return registers[3] >> 15 & 1;
}

/* The core id of the CPU we run on, or MAVCG_NOT_KNOWN. */
MAVCG_STATIC unsigned cpuid_core(void) {
    uint32_t registers[4];
    cpuid(0x1A, registers);
    switch (registers[0] >> 24) {
    case 0x20: return MAVCG_X86_ATOM_ID;
    case 0x40: return MAVCG_X86_CORE_ID;
    default: return MAVCG_NOT_KNOWN;
    }
}
#else
MAVCG_STATIC int cpuid_says_hybrid(void) { return 0; }

MAVCG_STATIC unsigned cpuid_core(void) { return MAVCG_NOT_KNOWN; }
#endif
