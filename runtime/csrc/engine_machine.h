/* The CPUs that a thread may run on, and its floating-point mode. */
#ifndef MAVCG_ENGINE_MACHINE_H
#define MAVCG_ENGINE_MACHINE_H

#include <stdint.h>

#include "internal.h"

enum { AFFINITY_WORDS = MAVCG_CPUS / 64 }; /* 64-bit words of a CPU mask */

/* Store the numbers of the CPUs that the calling thread may run on, at most max_cpus of them. Returns how many CPUs it
 * may run on; 1 if a sandbox hides them. */
MAVCG_PRIVATE uint32_t allowed_cpus(uint16_t *cpus, uint32_t max_cpus);

/* Rounding direction, denormals and traps: MXCSR without its sticky flags, or FPCR. All threads of a run use the
 * caller's mode, so that one result never mixes two modes. */
MAVCG_PRIVATE uint32_t float_mode(void);
MAVCG_PRIVATE void set_float_mode(uint32_t mode);

#endif
