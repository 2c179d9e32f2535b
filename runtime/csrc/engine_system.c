/* Matches CPUs with plans, and the processor with the instructions that kernels need. */
#include "engine_system.h"

#include <string.h>

#include "base_needs.h"
#include "engine.h"
#include "internal.h"

static uint32_t core_of(uint32_t cpu) {
    return __atomic_load_n(&MAVCG_NAME(core_of_cpu, MAVCG_SET)[cpu], __ATOMIC_RELAXED);
}

static bool has_core(const struct engine_plan *plan, uint32_t core) {
    return plan->cores[core / CORE_WORD] >> core % CORE_WORD & 1;
}

MAVCG_PRIVATE uint32_t cpus_of_plan(const struct engine_plan *plan, uint16_t *cpus, uint32_t count) {
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < count; i++)
        if (has_core(plan, core_of(cpus[i]))) cpus[chosen++] = cpus[i];
    return chosen;
}

MAVCG_PRIVATE bool plan_fits(const struct engine_plan *plan, const uint16_t *cpus, uint32_t count) {
    uint64_t missing[CORE_IDS / CORE_WORD];
    uint32_t usable = 0, any_missing = 0;
    memcpy(missing, plan->cores, sizeof missing);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t core = core_of(cpus[i]);
        if (!has_core(plan, core)) continue;
        missing[core / CORE_WORD] &= ~((uint64_t)1 << core % CORE_WORD);
        usable++;
    }
    for (int word = 0; word < CORE_IDS / CORE_WORD; word++) any_missing |= missing[word] != 0;
    return !any_missing && usable >= plan->threads;
}

MAVCG_PRIVATE bool has_base_features(void) { return offers_base(base_needs); }
