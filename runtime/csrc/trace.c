/* MAVCG_TRACE=1: count the runs of each version, and print them when the program ends or the library is closed.
 *
 * Functions register themselves at their first counted run, in a list that grows at its head. Counts belong to the
 * process `owner`: the first run counted in a forked child starts from zero. */

#define MAVCG_LIST_END ((struct mavcg_function *)1) /* so that NULL can say: not in the list */

MAVCG_STATIC void register_function(struct mavcg_state *state, struct mavcg_function *function) {
    struct mavcg_function *none = NULL;
    if (!__atomic_compare_exchange_n(&function->next, &none, MAVCG_LIST_END, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return; /* another thread does it */
    struct mavcg_function *head = __atomic_load_n(&state->counted, __ATOMIC_RELAXED);
    do __atomic_store_n(&function->next, head ? head : MAVCG_LIST_END, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&state->counted, &head, function, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

MAVCG_STATIC struct mavcg_function *first_function(struct mavcg_state *state) {
    struct mavcg_function *head = __atomic_load_n(&state->counted, __ATOMIC_ACQUIRE);
    return head ? head : MAVCG_LIST_END;
}

MAVCG_STATIC struct mavcg_function *next_function(struct mavcg_function *function) {
    return __atomic_load_n(&function->next, __ATOMIC_ACQUIRE);
}

enum { OWNER_STARTS = 1, WAITS_FOR_START = 10000 };

/* In a forked child: forget the parent's counts. One thread does it and the others wait, but not for ever: a signal
 * handler may have interrupted the one that does it. */
MAVCG_STATIC void own_counts(struct mavcg_state *state, unsigned versions) {
    uint64_t mine = (uint64_t)process_id() << 1;
    uint64_t owner = __atomic_load_n(&state->owner, __ATOMIC_ACQUIRE);
    if (owner == mine) return;
    if ((owner | OWNER_STARTS) != (mine | OWNER_STARTS) &&
        __atomic_compare_exchange_n(&state->owner, &owner, mine | OWNER_STARTS, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
        for (struct mavcg_function *f = first_function(state); f != MAVCG_LIST_END; f = next_function(f))
            for (unsigned id = 0; id < versions; id++) __atomic_store_n(&f->runs[id], 0, __ATOMIC_RELAXED);
        __atomic_store_n(&state->owner, mine, __ATOMIC_RELEASE);
        return;
    }
    for (int waits = 0; waits < WAITS_FOR_START; waits++) {
        if (__atomic_load_n(&state->owner, __ATOMIC_ACQUIRE) == mine) return;
        yield_cpu();
    }
}

MAVCG_RARE MAVCG_STATIC void count_run(const struct mavcg_set *set, struct mavcg_function *function, unsigned id) {
    own_counts(set->state, set->versions);
    if (!__atomic_load_n(&function->next, __ATOMIC_RELAXED)) register_function(set->state, function);
    __atomic_fetch_add(&function->runs[id], 1, __ATOMIC_RELAXED);
}

MAVCG_STATIC void print_runs(const struct mavcg_set *set, struct mavcg_function *function) {
    for (unsigned id = MAVCG_GENERIC; id < set->versions; id++) {
        uint64_t runs = __atomic_load_n(&function->runs[id], __ATOMIC_RELAXED);
        struct digits room;
        struct line line;
        if (!runs) continue;
        start_line(&line);
        add_text(&line, function->name);
        add_text(&line, " ");
        add_text(&line, core_name(set, id));
        add_text(&line, " ");
        add_text(&line, number_text(&room, runs, 10));
        end_line(&line);
    }
}

/* All counts, in the order of the functions' first runs: the list has the last one first. */
MAVCG_RARE MAVCG_STATIC void print_all_runs(const struct mavcg_set *set) {
    struct mavcg_state *state = set->state;
    unsigned functions = 0;
    if (__atomic_load_n(&state->owner, __ATOMIC_ACQUIRE) != (uint64_t)process_id() << 1) return;
    for (struct mavcg_function *f = first_function(state); f != MAVCG_LIST_END; f = next_function(f)) functions++;
    for (; functions; functions--) {
        struct mavcg_function *function = first_function(state);
        for (unsigned step = 1; step < functions; step++) function = next_function(function);
        print_runs(set, function);
    }
}
