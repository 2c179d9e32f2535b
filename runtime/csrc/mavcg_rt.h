/* What a library asks of the shared selector, libmavcg_rt.so: each function in the symbol version MAVCG_RT_<MAVCG_ABI>
 * of the ABI that brought it, so that a loader refuses a selector that is older than what it is asked for. */
#ifndef MAVCG_RT_H
#define MAVCG_RT_H

struct mavcg_set;
struct mavcg_function;

void mavcg_rt_start(const struct mavcg_set *set);
void mavcg_rt_finish(const struct mavcg_set *set);
void *mavcg_rt_select(const struct mavcg_set *set, struct mavcg_function *function);

#endif
