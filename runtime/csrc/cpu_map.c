/* Parses MAVCG_CPU_MAP. */
#include "cpu_map.h"

#include "internal.h"
#include "names.h"
#include "text.h"

/* Read the number at *at and advance *at past it. Returns -1 if there is no number, MAVCG_CPUS if it is too large. */
static int map_number(const char **at) {
    int value = -1;
    for (; is_digit(**at); ++*at)
        if (value < MAVCG_CPUS) value = (value < 0 ? 0 : value) * 10 + (**at - '0');
    return value < MAVCG_CPUS ? value : MAVCG_CPUS;
}

static const char *skip_blanks(const char *at) {
    while (is_blank(*at)) at++;
    return at;
}

struct map_entry {
    bool any; /* the entry is "all" or "*" */
    int first, last;
};

/* Read one "cpus" at *at and advance *at past it. Returns NULL, or a description of the fault. */
static const char *read_map_cpus(const char **at, struct map_entry *entry) {
    entry->first = entry->last = 0;
    entry->any = true;
    if (**at == '*') return ++*at, NULL;
    if (**at == 'a' && (*at)[1] == 'l' && (*at)[2] == 'l') return *at += 3, NULL;
    entry->any = false;
    entry->first = entry->last = map_number(at);
    if (entry->first < 0) return "does not start with CPU numbers, all or *";
    const char *dash = skip_blanks(*at);
    if (*dash == '-') {
        *at = skip_blanks(dash + 1);
        entry->last = map_number(at);
    }
    if (entry->first == MAVCG_CPUS || entry->last == MAVCG_CPUS) return "has a CPU number above 8191";
    return entry->last < entry->first ? "is not a range of CPU numbers" : NULL;
}

MAVCG_PRIVATE unsigned map_lookup(const struct mavcg_set *set, const char *map, int cpu, int *highest, unsigned *rest,
                                  struct map_fault *fault) {
    unsigned named = MAVCG_NOT_KNOWN;
    bool pending = false, pending_here = false, pending_any = false; /* CPUs whose "=core" is still to come */
    *highest = -1;
    *rest = MAVCG_NOT_KNOWN;
    for (const char *at = map;; at++) {
        const char *core = NULL;
        struct map_entry entry;
        fault->part = at = skip_blanks(at);
        fault->what = read_map_cpus(&at, &entry);
        at = skip_blanks(at);
        if (!fault->what) {
            pending = true;
            pending_any |= entry.any;
            pending_here |= !entry.any && entry.first <= cpu && cpu <= entry.last;
            if (!entry.any && entry.last > *highest) *highest = entry.last;
            if (*at == '=') core = at = skip_blanks(at + 1);
            else if (*at && *at != ',') fault->what = "is not CPUS=CORE";
        }
        while (*at && *at != ',') at++;
        const char *end = at;
        while (end > fault->part && is_blank(end[-1])) end--;
        fault->bytes = (size_t)(end - fault->part);
        if (fault->what) return MAVCG_NOT_KNOWN;
        if (core) {
            bool is_known;
            unsigned id = core_id(set, core, (size_t)(end - core), &is_known);
            if (!id)
                fault->what = core == end ? "names no core"
                              : is_known  ? "names a core whose instructions this processor does not all have"
                                          : "names a core that is not known here";
            if (fault->what) return MAVCG_NOT_KNOWN;
            if (pending_here) named = id;
            if (pending_any) *rest = id;
            pending = pending_here = pending_any = false;
        }
        if (!*at) break;
    }
    if (pending) fault->what = "has no =CORE";
    return named ? named : *rest;
}
