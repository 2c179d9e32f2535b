/* The one core type of a machine whose CPUs are all alike. */
#ifndef MAVCG_UNIFORM_H
#define MAVCG_UNIFORM_H

#include "internal.h"

/* The core id that all present CPUs have, or MAVCG_NOT_KNOWN when they differ or one is not known. */
MAVCG_PRIVATE unsigned uniform_core(const struct mavcg_machine *machine, const struct mavcg_table *table);

#endif
