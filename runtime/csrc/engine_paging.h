/* Pages of constants that are in memory while a run needs them (mavcg/apps/weight_paging.py).
 *
 * Phases that follow each other are groups. While a group computes, the pages of the group before are released and those
 * of the next one mapped, by the first worker that comes to a step of it, which then computes with the others. A group
 * begins when this has ended, so that pages of three groups are never in memory; if no worker came, or the context has
 * one thread, the caller of run does it. A page that is not mapped yet is mapped when a kernel first reads it. */
#ifndef MAVCG_ENGINE_PAGING_H
#define MAVCG_ENGINE_PAGING_H

#include "engine.h"
#include "internal.h"

/* Begin a run. */
MAVCG_PRIVATE void begin_paging(struct mavcg_context *context);

/* Before a phase, in order of phases: do what page_table says of those up to this one, or leave it to workers. */
MAVCG_PRIVATE void page_weights(struct mavcg_context *context, uint32_t phase);

/* In a worker: do what is left to workers, if no other does. */
MAVCG_PRIVATE void help_paging(struct mavcg_context *context);

/* End a run: afterwards no thread maps or releases a page. */
MAVCG_PRIVATE void end_paging(struct mavcg_context *context);

#endif
