/* Wakes another thread on a CPU that is not the caller's. */
#include "engine_wake.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "engine_machine.h"
#include "internal.h"
#include "x86_features.h"

MAVCG_PRIVATE int32_t this_thread(void) { return (int32_t)syscall(SYS_gettid); }

MAVCG_PRIVATE int32_t this_cpu(void) {
    unsigned cpu = 0;
    return syscall(SYS_getcpu, &cpu, (void *)0, (void *)0) ? -1 : (int32_t)cpu;
}

MAVCG_PRIVATE uint32_t virtual_cpus(void) {
#if defined(__x86_64__)
    bool is_virtual = cpuid(1, 0, ECX) >> 31; /* set by hypervisors */
    long cpus = is_virtual ? sysconf(_SC_NPROCESSORS_ONLN) : 0;
    return cpus > 0 ? (uint32_t)cpus : 0;
#else
    return 0;
#endif
}

MAVCG_PRIVATE bool keep_off_cpu(int32_t thread, uint32_t cpu, uint32_t cpus) {
    uint64_t mask[AFFINITY_WORDS] = {0};
    uint32_t allowed = 0;
    if (cpu >= MAVCG_CPUS || syscall(SYS_sched_getaffinity, thread, sizeof mask, mask) <= 0) return false;
    for (uint32_t i = 0; i < AFFINITY_WORDS; i++) allowed += (uint32_t)__builtin_popcountll(mask[i]);
    if (allowed < cpus || allowed < 2) return false;
    mask[cpu / 64] &= ~((uint64_t)1 << cpu % 64);
    return syscall(SYS_sched_setaffinity, thread, sizeof mask, mask) == 0;
}

MAVCG_PRIVATE void allow_all_cpus(int32_t thread) {
    uint64_t mask[AFFINITY_WORDS];
    for (uint32_t i = 0; i < AFFINITY_WORDS; i++) mask[i] = ~(uint64_t)0;
    syscall(SYS_sched_setaffinity, thread, sizeof mask, mask);
}
