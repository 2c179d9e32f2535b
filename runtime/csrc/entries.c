/* Entry points for dispatchers, for the loader, and for the end of the program. Their constructor and destructor
 * priorities are the first and the last that a program may use.
 *
 * MAVCG_LOADED_SELECTOR: the selector is libmavcg_rt.so. */
#include "internal.h"
#include "mavcg_core_table.h" /* generated, see runtime/coreset.py */
#include "set.h"

#if defined(MAVCG_LOADED_SELECTOR)
#include "mavcg_rt.h"
#define select_in mavcg_rt_select
#define start_set mavcg_rt_start
#define finish_set mavcg_rt_finish
#else
#include "select.h"
#endif

MAVCG_SHARED void *MAVCG_NAME(select, MAVCG_SET)(struct mavcg_function *function) {
    return select_in(&core_set, function);
}

__attribute__((constructor(101))) static void start(void) { start_set(&core_set); }

__attribute__((destructor(101))) static void finish(void) { finish_set(&core_set); }
