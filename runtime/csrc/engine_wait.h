/* The clock, and waiting for a word in memory to change. */
#ifndef MAVCG_ENGINE_WAIT_H
#define MAVCG_ENGINE_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "internal.h"

MAVCG_PRIVATE uint64_t now_ns(void);

/* Poll the word for at most spin_ns. Returns true if it differs from `value`. */
MAVCG_PRIVATE bool spin_until_change(const uint32_t *word, uint32_t value, uint64_t spin_ns);

/* Sleep in the kernel until woken. Returns at once if the word differs from `value`, and may return spuriously: callers
 * must check again. */
MAVCG_PRIVATE void sleep_while(uint32_t *word, uint32_t value);

/* Wake threads that sleep on the word. */
MAVCG_PRIVATE void wake(uint32_t *word, uint32_t sleepers);

#endif
