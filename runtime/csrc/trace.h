/* MAVCG_TRACE=1: counts the runs of each version, and prints the counts when the program ends or the library is
 * closed. */
#ifndef MAVCG_TRACE_H
#define MAVCG_TRACE_H

#include "internal.h"

/* Set up the identities of processes; must be called before the first run is counted. */
MAVCG_PRIVATE void start_counting(void);

/* Count a run of a version. Each function registers itself at its first counted run. */
MAVCG_PRIVATE void count_run(const struct mavcg_set *set, struct mavcg_function *function, unsigned id);

/* Print all counts of this process, in the order in which the functions first ran. */
MAVCG_PRIVATE void print_all_runs(const struct mavcg_set *set);

#endif
