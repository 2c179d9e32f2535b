/* The core set that the selector's functions use. */
#ifndef MAVCG_SET_H
#define MAVCG_SET_H

#include "internal.h"

#if defined(MAVCG_SHARED_SELECTOR)
#define MAVCG_SET_OF(table) ((table)->set)
#else
MAVCG_PRIVATE_DATA const struct mavcg_set core_set;
#define MAVCG_SET_OF(table) ((void)(table), &core_set) /* the only set: a constant for the compiler */
#endif

#endif
