/* The functions that core sets call in a selector which serves several sets.
 *
 * It is libmavcg_rt.so, where each function has the symbol version MAVCG_RT_<MAVCG_ABI> of the ABI that introduced it, so
 * that a loader rejects a selector that is too old. With MAVCG_LINKED_SELECTOR it is part of the same link: hidden, and
 * named by the ABI. */
#ifndef MAVCG_RT_H
#define MAVCG_RT_H

#include "internal.h"
#include "mavcg_runtime.h"

#if defined(MAVCG_LINKED_SELECTOR) && defined(MAVCG_SMALL_SELECTOR) /* a link may have both */
#define mavcg_rt_start MAVCG_NAME(small_start, MAVCG_ABI)
#define mavcg_rt_finish MAVCG_NAME(small_finish, MAVCG_ABI)
#define mavcg_rt_select MAVCG_NAME(small_select, MAVCG_ABI)
#define MAVCG_RT __attribute__((visibility("hidden")))
#elif defined(MAVCG_LINKED_SELECTOR)
#define mavcg_rt_start MAVCG_NAME(linked_start, MAVCG_ABI)
#define mavcg_rt_finish MAVCG_NAME(linked_finish, MAVCG_ABI)
#define mavcg_rt_select MAVCG_NAME(linked_select, MAVCG_ABI)
#define MAVCG_RT __attribute__((visibility("hidden")))
#else
#define MAVCG_RT
#endif

MAVCG_RT void mavcg_rt_start(const struct mavcg_set *set);
MAVCG_RT void mavcg_rt_finish(const struct mavcg_set *set);
MAVCG_RT void *mavcg_rt_select(const struct mavcg_set *set, struct mavcg_function *function);

/* The functions of libmavcg_rt.so, for small selectors: they refer to mavcg_rt_entries as a weak symbol, and leave their
 * sets to libmavcg_rt.so, which has the settings, where the process has loaded it. */
struct mavcg_rt_entries {
    void (*start)(const struct mavcg_set *set);
    void (*finish)(const struct mavcg_set *set);
    void *(*select)(const struct mavcg_set *set, struct mavcg_function *function);
};

extern const struct mavcg_rt_entries mavcg_rt_entries MAVCG_WEAK_IMPORT;

#endif
