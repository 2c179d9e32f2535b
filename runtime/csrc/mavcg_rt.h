/* The functions that libraries call in the shared selector, libmavcg_rt.so. Each has the symbol version
 * MAVCG_RT_<MAVCG_ABI> of the ABI that introduced it, so that a loader rejects a selector that is too old. */
#ifndef MAVCG_RT_H
#define MAVCG_RT_H

struct mavcg_set;
struct mavcg_function;

void mavcg_rt_start(const struct mavcg_set *set);
void mavcg_rt_finish(const struct mavcg_set *set);
void *mavcg_rt_select(const struct mavcg_set *set, struct mavcg_function *function);

#endif
