/* Reads the allowed CPUs, and reads and sets the floating-point mode. */
#include "engine_machine.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

MAVCG_PRIVATE uint32_t allowed_cpus(uint16_t *cpus, uint32_t max_cpus) {
    static const uint32_t word_bits = 64;
    uint64_t mask[AFFINITY_WORDS] = {0};
    uint32_t count = 0;
    if (max_cpus) cpus[0] = 0;
    if (syscall(SYS_sched_getaffinity, 0, sizeof mask, mask) <= 0) return 1;
    for (uint32_t cpu = 0; cpu < MAVCG_CPUS; cpu++) {
        if (!(mask[cpu / word_bits] >> cpu % word_bits & 1)) continue;
        if (count < max_cpus) cpus[count] = (uint16_t)cpu;
        count++;
    }
    return count ? count : 1;
}

MAVCG_PRIVATE uint32_t float_mode(void) {
#if defined(__x86_64__)
    return __builtin_ia32_stmxcsr() & ~(uint32_t)0x3F;
#elif defined(__aarch64__)
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return (uint32_t)mode;
#endif
}

MAVCG_PRIVATE void set_float_mode(uint32_t mode) {
    if (mode == float_mode()) return;
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(mode);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)mode));
#endif
}
