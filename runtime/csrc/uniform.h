/* The core type of a machine whose CPUs are all alike. */
#ifndef MAVCG_UNIFORM_H
#define MAVCG_UNIFORM_H

#include "internal.h"

/* Return the core id that all present CPUs have, or MAVCG_NOT_KNOWN if they differ or one is not identified. */
MAVCG_PRIVATE unsigned uniform_core(const struct mavcg_machine *machine, const struct mavcg_table *table);

#endif
