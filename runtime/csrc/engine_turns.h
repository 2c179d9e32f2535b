/* Turns of the networks that share an application's memory. */
#ifndef MAVCG_ENGINE_TURNS_H
#define MAVCG_ENGINE_TURNS_H

#include <stdbool.h>

#include "application_memory.h"
#include "internal.h"

/* Begin a run; false while a network that shares this memory is in a run. What a thread of another process took
 * is free here: a forked child has a copy of the memory. memory NULL: a context with memory of its own, always true. */
MAVCG_PRIVATE bool take_turn(const struct shared_memory *memory);

/* End the run. */
MAVCG_PRIVATE void end_turn(const struct shared_memory *memory);

#endif
