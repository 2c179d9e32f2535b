/* Memory of a context. */
#ifndef MAVCG_ENGINE_MEMORY_H
#define MAVCG_ENGINE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "internal.h"

/* Allocate memory aligned to `align` bytes; returns NULL on failure. */
MAVCG_PRIVATE void *aligned_bytes(size_t bytes, size_t align);

/* Return `bytes` rounded up to whole pages of any system. */
MAVCG_PRIVATE size_t mapped_bytes(size_t bytes);

/* Allocate memory for tensors and scratch; returns NULL on failure.
 *
 * Steps read and write this memory repeatedly, so that large pages are requested for it, and it begins at a large page:
 * a step on 36 planes of tiles touches more small pages at a time than a core's TLB holds. It is a separate mapping,
 * since malloc would later reuse the addresses for other data. A system without large pages provides small ones. Less
 * than one large page is allocated by malloc. */
MAVCG_PRIVATE void *working_bytes(size_t bytes, size_t align);

/* Free memory of working_bytes. memory may be NULL. */
MAVCG_PRIVATE void free_working(void *memory, size_t bytes);

/* Allocate zeroed memory that the kernel clears in a forked child; returns NULL on failure. *cleared: false if the
 * kernel does not clear it. */
MAVCG_PRIVATE void *child_cleared_bytes(size_t bytes, bool *cleared);

/* Free memory of child_cleared_bytes. memory may be NULL. */
MAVCG_PRIVATE void free_child_cleared(void *memory, size_t bytes);

#endif
