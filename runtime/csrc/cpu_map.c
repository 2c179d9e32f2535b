/* MAVCG_CPU_MAP: which core type each CPU counts as, such as "0-3=cortex-a55,4-5=cortex-a75,6,7=exynos-m4".
 *
 *   map   := entry ("," entry)*          entry := cpus ("," cpus)* "=" core
 *   cpus  := N | N-M | "all" | "*"       core  := a name that the library knows, or "generic"
 *
 * Blanks around any of these are skipped. Where two entries name a CPU the later one counts; all and * name the CPUs
 * that no number names. A map with any fault is not used at all: half a map would be a machine that nobody asked for. */

struct map_fault {
    const char *what; /* NULL: none */
    const char *part; /* the faulty part of the map */
    size_t bytes;
};

/* N at *at, which moves on; -1 where there is none, MAVCG_CPUS where it is too large. */
MAVCG_STATIC int map_number(const char **at) {
    int value = -1;
    for (; is_digit(**at); ++*at)
        if (value < MAVCG_CPUS) value = (value < 0 ? 0 : value) * 10 + (**at - '0');
    return value < MAVCG_CPUS ? value : MAVCG_CPUS;
}

MAVCG_STATIC const char *skip_blanks(const char *at) {
    while (is_blank(*at)) at++;
    return at;
}

struct map_entry {
    int any; /* all or * */
    int first, last;
};

/* One "cpus" at *at, which moves past it; what is wrong with it, or NULL. */
MAVCG_STATIC const char *read_map_cpus(const char **at, struct map_entry *entry) {
    entry->first = entry->last = 0;
    entry->any = 1;
    if (**at == '*') return ++*at, NULL;
    if (**at == 'a' && (*at)[1] == 'l' && (*at)[2] == 'l') return *at += 3, NULL;
    entry->any = 0;
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

/* The core id that the map gives this CPU, MAVCG_NOT_KNOWN where it says nothing. With MAVCG_NO_CPU, whether each core
 * that is named can run here is looked at as well. highest: the highest CPU number that
 * the map names, or -1; rest: the id of all others, or MAVCG_NOT_KNOWN. */
MAVCG_STATIC unsigned map_lookup(const struct mavcg_set *set, const char *map, int cpu, int *highest, unsigned *rest,
                                 struct map_fault *fault) {
    unsigned named = MAVCG_NOT_KNOWN;
    int waits = 0, waits_here = 0, waits_any = 0; /* CPUs whose "=core" is still to come */
    *highest = -1;
    *rest = MAVCG_NOT_KNOWN;
    for (const char *at = map;; at++) {
        const char *core = NULL;
        struct map_entry entry;
        fault->part = at = skip_blanks(at);
        fault->what = read_map_cpus(&at, &entry);
        at = skip_blanks(at);
        if (!fault->what) {
            waits = 1;
            waits_any |= entry.any;
            waits_here |= !entry.any && entry.first <= cpu && cpu <= entry.last;
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
            unsigned id = core_id(set, core, (size_t)(end - core));
            if (!id) fault->what = core == end ? "names no core" : "names a core that is not known here";
            else if (cpu == MAVCG_NO_CPU && !x86_can_run(set, id))
                fault->what = "names a core whose instructions this processor does not all have";
            if (fault->what) return MAVCG_NOT_KNOWN;
            if (waits_here) named = id;
            if (waits_any) *rest = id;
            waits = waits_here = waits_any = 0;
        }
        if (!*at) break;
    }
    if (waits) fault->what = "has no =CORE";
    return named ? named : *rest;
}
