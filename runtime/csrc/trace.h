/* MAVCG_TRACE=1: counts the runs of each version, and prints them when the program ends or the library is closed. */
#ifndef MAVCG_TRACE_H
#define MAVCG_TRACE_H

#include "internal.h"

/* Make processes distinguishable, before the first run is counted. */
MAVCG_PRIVATE void start_counting(void);

/* Count a run of a version. Functions register themselves at their first counted run. */
MAVCG_PRIVATE void count_run(const struct mavcg_set *set, struct mavcg_function *function, unsigned id);

/* Print all counts of this process, in the order of the functions' first runs. */
MAVCG_PRIVATE void print_all_runs(const struct mavcg_set *set);

#endif
