/* Restricts threads to CPUs. */
#include "engine_affinity.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "engine_machine.h"
#include "internal.h"

MAVCG_PRIVATE void set_affinity(const uint16_t *cpus, uint32_t count) {
    uint64_t mask[AFFINITY_WORDS] = {0};
    for (uint32_t i = 0; i < count; i++) mask[cpus[i] / 64] |= (uint64_t)1 << cpus[i] % 64;
    syscall(SYS_sched_setaffinity, 0, sizeof mask, mask);
}
