/* One selector for several core sets: those of all libraries in a process (libmavcg_rt.so), or those of one link
 * (MAVCG_LINKED_SELECTOR). Its unit defines MAVCG_SHARED_SELECTOR. */
#include "internal.h"
#include "mavcg_rt.h"
#include "select.h"
#include "text.h"

#if defined(MAVCG_LINKED_SELECTOR)
MAVCG_SHARED void mavcg_rt_start(const struct mavcg_set *set) { start_set(set); }

MAVCG_SHARED void mavcg_rt_finish(const struct mavcg_set *set) { finish_set(set); }

MAVCG_SHARED void *mavcg_rt_select(const struct mavcg_set *set, struct mavcg_function *function) {
    return select_in(set, function);
}
#else
#define MAVCG_EXPORT __attribute__((visibility("default")))

/* Check the ABI here too: loaders that compare symbol versions (glibc, bionic) have already rejected a set of a later
 * ABI, but musl's has not. */
static bool is_known(const struct mavcg_set *set) { return set->abi <= MAVCG_ABI; }

/* The first calls of a small selector's set may have come before its library was bound to this one, and have filled the
 * table without the settings: forget it. */
static void start_again(const struct mavcg_set *set) {
    struct mavcg_state *state = set->state;
    if (!state->ready || state->complained) return;
    for (int cpu = 0; cpu < MAVCG_CPUS; cpu++) set->core_of_cpu[cpu] = MAVCG_NOT_KNOWN;
    *set->rseq_offset = state->only_core = state->ready = 0;
}

MAVCG_EXPORT void mavcg_rt_start(const struct mavcg_set *set) {
    struct digits own, required;
    struct line line;
    if (is_known(set)) {
        start_again(set);
        start_set(set);
        return;
    }
    start_line(&line);
    add_text(&line, "a library wants the selector's ABI ");
    add_text(&line, number_text(&required, set->abi, 10));
    add_text(&line, ", and this libmavcg_rt.so has ");
    add_text(&line, number_text(&own, MAVCG_ABI, 10));
    add_text(&line, ": its generic versions run; install a newer one (mavcg runtime)");
    end_line(&line);
}

MAVCG_EXPORT void mavcg_rt_finish(const struct mavcg_set *set) {
    if (is_known(set)) finish_set(set);
}

MAVCG_EXPORT void *mavcg_rt_select(const struct mavcg_set *set, struct mavcg_function *function) {
    return is_known(set) ? select_in(set, function) : function->versions[MAVCG_GENERIC];
}

MAVCG_EXPORT const struct mavcg_rt_entries mavcg_rt_entries = {mavcg_rt_start, mavcg_rt_finish, mavcg_rt_select};
#endif
