/* The selector's functions that dispatchers, the loader and the end of the program call. */
#ifndef MAVCG_SELECT_H
#define MAVCG_SELECT_H

#include "internal.h"

/* Return the version to run now, for a call that cannot be dispatched in line. This never fails: the generic version is
 * always correct. */
MAVCG_PRIVATE void *select_in(const struct mavcg_set *set, struct mavcg_function *function);

/* Start a core set, when its library is loaded. */
MAVCG_PRIVATE void start_set(const struct mavcg_set *set);

/* Finish a core set, when its library is closed or the program ends. */
MAVCG_PRIVATE void finish_set(const struct mavcg_set *set);

#endif
