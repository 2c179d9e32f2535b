/* The settings of a program's user: MAVCG_CPU_MAP and MAVCG_TRACE. */
#ifndef MAVCG_SETTINGS_H
#define MAVCG_SETTINGS_H

#include "internal.h"

/* Parse the value of MAVCG_TRACE, which may be NULL, into TRACE_ bits. report: print a line about each unknown part. */
MAVCG_PRIVATE uint32_t read_trace(const char *text, bool report);

/* Fill the table from the map, let it report each answer if the trace is to have them, and return the TRACE_ bits. Faults
 * are reported once for each set. A set-user-ID program has no settings. */
MAVCG_PRIVATE uint32_t read_settings(const struct mavcg_set *set, struct mavcg_table *table);

/* Print a line if a setting is set and not switched off, which the small selector does not have. */
MAVCG_PRIVATE void report_missing_settings(void);

#endif
