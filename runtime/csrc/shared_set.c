/* A library's part where the selector is shared: its core set, and the way to libmavcg_rt.so. */
#include "internal.h"
#include "mavcg_core_table.h" /* generated, see runtime/coreset.py */
#include "mavcg_rt.h"
#include "set.c"
#define MAVCG_LOADED_SELECTOR 1
#include "entries.c"
