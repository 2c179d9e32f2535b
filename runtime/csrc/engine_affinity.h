/* Setting the CPUs that a thread may run on. */
#ifndef MAVCG_ENGINE_AFFINITY_H
#define MAVCG_ENGINE_AFFINITY_H

#include <stdint.h>

#include "internal.h"

/* Restrict the calling thread to these CPUs. If the system refuses, the thread stays unrestricted. */
MAVCG_PRIVATE void set_affinity(const uint16_t *cpus, uint32_t count);

#endif
