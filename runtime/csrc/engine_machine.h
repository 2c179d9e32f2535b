/* CPUs that a thread may run on, and floating-point modes. */
#ifndef MAVCG_ENGINE_MACHINE_H
#define MAVCG_ENGINE_MACHINE_H

#include <stdint.h>

#include "internal.h"

enum { AFFINITY_WORDS = MAVCG_CPUS / 64 }; /* of a mask of CPUs, 64 bits each */

/* List the numbers of the CPUs that the calling thread may run on, at most max_cpus of them. Returns the number of all of
 * them; 1 where a sandbox hides them. */
MAVCG_PRIVATE uint32_t allowed_cpus(uint16_t *cpus, uint32_t max_cpus);

/* Rounding direction, denormals, traps: MXCSR without its sticky flags, or FPCR. A run uses its caller's mode on every
 * thread, else one result could come from two modes. */
MAVCG_PRIVATE uint32_t float_mode(void);
MAVCG_PRIVATE void set_float_mode(uint32_t mode);

#endif
