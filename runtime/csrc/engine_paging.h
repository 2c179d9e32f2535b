/* Pages of constants that are in memory while a run needs them (mavcg/apps/weight_paging.py). */
#ifndef MAVCG_ENGINE_PAGING_H
#define MAVCG_ENGINE_PAGING_H

#include "internal.h"

/* Before a phase: release the pages that the phases from this one on do not read, map those that they do, and prefetch
 * those of the phases after them. A page that is not mapped is when a kernel reads it. */
MAVCG_PRIVATE void page_weights(uint32_t phase);

#endif
