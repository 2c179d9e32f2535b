/* CPUs that a thread is restricted to. */
#ifndef MAVCG_ENGINE_AFFINITY_H
#define MAVCG_ENGINE_AFFINITY_H

#include <stdint.h>

#include "internal.h"

/* Restrict the calling thread to these CPUs. Where the system does not allow that the thread stays unrestricted. */
MAVCG_PRIVATE void set_affinity(const uint16_t *cpus, uint32_t count);

#endif
