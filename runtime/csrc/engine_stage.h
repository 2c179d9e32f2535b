/* Stages of a network's pipeline: contexts that run a range of its phases. */
#ifndef MAVCG_ENGINE_STAGE_H
#define MAVCG_ENGINE_STAGE_H

#include <stdint.h>

#include "application_memory.h"
#include "engine.h"
#include "internal.h"

#if defined(MODEL_IN_APPLICATION)

/* These functions fill struct application_network; see there. */
MAVCG_PRIVATE int check_frame(void *context, const void *const *inputs, void *const *outputs, uint32_t *counts);
MAVCG_PRIVATE uint32_t stage_cpus(uint32_t stage, uint16_t *cpus, uint32_t count, uint32_t *threads);
MAVCG_PRIVATE int create_stage(const struct shared_memory *memory, uint32_t stage, uint32_t first_thread,
                               uint32_t *threads, void **created);
MAVCG_PRIVATE void begin_frame(void *context);
MAVCG_PRIVATE int run_stage(void *context, const struct pipeline_frame *frame);
MAVCG_PRIVATE void cancel_stage(void *context);

#endif

#endif
