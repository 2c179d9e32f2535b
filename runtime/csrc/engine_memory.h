/* Memory of a context. */
#ifndef MAVCG_ENGINE_MEMORY_H
#define MAVCG_ENGINE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "internal.h"

/* Memory at a multiple of align; NULL where there is none. */
MAVCG_PRIVATE void *aligned_bytes(size_t bytes, size_t align);

/* `bytes`, rounded up to whole pages of any system. */
MAVCG_PRIVATE size_t mapped_bytes(size_t bytes);

/* Memory for tensors and scratch; NULL where there is none.
 *
 * Steps read and write it again and again, so large pages are requested for it, which begin where it begins: a step on 36
 * planes of tiles touches more small pages at a time than a core's TLB holds. It is a mapping of its own, since malloc
 * would give the same addresses to others later. A system without large pages gives small ones; less than one large page
 * comes from malloc. */
MAVCG_PRIVATE void *working_bytes(size_t bytes, size_t align);

/* Free such memory. NULL is fine. */
MAVCG_PRIVATE void free_working(void *memory, size_t bytes);

/* Memory that is all zero and that the kernel clears in a forked child; NULL where there is none. *cleared: false where
 * the kernel does not do so. */
MAVCG_PRIVATE void *child_cleared_bytes(size_t bytes, bool *cleared);

/* Free such memory. NULL is fine. */
MAVCG_PRIVATE void free_child_cleared(void *memory, size_t bytes);

#endif
