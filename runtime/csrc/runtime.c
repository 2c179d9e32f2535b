/* The selector of one core set, as one translation unit: only the symbols of mavcg_runtime.h leave it. */
#include "internal.h"
#include "mavcg_core_table.h" /* generated, see runtime/coreset.py */
#include "set.c"
#include "selector.c"
#include "entries.c"
