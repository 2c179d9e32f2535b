/* Fills the state of a core set. */
#ifndef MAVCG_START_H
#define MAVCG_START_H

#include "internal.h"

MAVCG_PRIVATE_DATA const struct mavcg_machine this_machine;

/* Return the set's table of core types, for filling. trace: bit mask of TRACE_ bits. */
MAVCG_PRIVATE struct mavcg_table shared_table(const struct mavcg_set *set, uint32_t trace);

/* Let dispatchers read the CPU number themselves, unless each run is to be counted. */
MAVCG_PRIVATE void publish_rseq(const struct mavcg_set *set);

/* Fill the table and let dispatchers use it. Doing this twice, or in two threads at once, has the same effect as
 * once. */
MAVCG_PRIVATE void start_selecting(const struct mavcg_set *set);

#endif
