/* Mutual exclusion of the networks that share an application's memory. */
#ifndef MAVCG_ENGINE_TURNS_H
#define MAVCG_ENGINE_TURNS_H

#include <stdbool.h>

#include "application_memory.h"
#include "internal.h"

/* Begin a run; false if a network that shares this memory is running. Networks that were running in another process
 * count as free: a forked child has its own copy of the memory. memory NULL: the context has its own memory; always
 * true. */
MAVCG_PRIVATE bool take_turn(const struct shared_memory *memory);

/* End the run. */
MAVCG_PRIVATE void end_turn(const struct shared_memory *memory);

#endif
