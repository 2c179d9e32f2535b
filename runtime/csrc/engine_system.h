/* Tests whether this machine's CPUs fit a plan, and whether the processor has the instructions that kernels need. */
#ifndef MAVCG_ENGINE_SYSTEM_H
#define MAVCG_ENGINE_SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

#include "engine.h"
#include "internal.h"

/* Move the CPUs of a plan's core types to the front of `cpus`, keeping their order. Returns their number. */
MAVCG_PRIVATE uint32_t cpus_of_plan(const struct engine_plan *plan, uint16_t *cpus, uint32_t count);

/* True if these CPUs suffice for a plan's threads, and include at least one CPU of each of the plan's core types. */
MAVCG_PRIVATE bool plan_fits(const struct engine_plan *plan, const uint16_t *cpus, uint32_t count);

/* True if this processor has the instructions that every version of every kernel needs. */
MAVCG_PRIVATE bool has_base_features(void);

#endif
