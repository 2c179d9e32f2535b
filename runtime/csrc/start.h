/* Fills the state of a core set: from the environment, then from the machine. */
#ifndef MAVCG_START_H
#define MAVCG_START_H

#include "internal.h"

MAVCG_PRIVATE_DATA const struct mavcg_machine this_machine;

/* The table of this set's core types. trace: TRACE_ bits. */
MAVCG_PRIVATE struct mavcg_table shared_table(const struct mavcg_set *set, uint32_t trace);

/* TRACE_ bits of MAVCG_TRACE's value, which may be NULL. report: print a line about each part that is not known. */
MAVCG_PRIVATE uint32_t read_trace(const char *text, bool report);

/* Let dispatchers read the CPU by themselves, unless each run is to be counted. */
MAVCG_PRIVATE void publish_rseq(const struct mavcg_set *set);

/* Fill the table and let dispatchers use it. Doing it twice, or in two threads at once, changes nothing. */
MAVCG_PRIVATE void start_selecting(const struct mavcg_set *set);

#endif
