/* Counts runs of functions, kept in a linked list that grows at its head.
 *
 * Counts belong to the process `owner`: a forked child starts from zero at its first counted run. A process number does
 * not identify a process: a child in a PID namespace may have its parent's. Instead each process has an identity, a
 * number greater than those of all its ancestors, in a word that the kernel clears in every child; a process that finds
 * the word cleared takes the next number. A child that shares its parent's memory (vfork) shares the counts too. If the
 * kernel does not clear memory, process numbers are the identities. */
#include "trace.h"

#include "internal.h"
#include "names.h"
#include "process.h"
#include "text.h"

#define MAVCG_LIST_END ((struct mavcg_function *)1) /* not NULL, because NULL means: not in the list */

static uint64_t *identity_word; /* cleared in children; NULL: process numbers are the identities */
static uint64_t last_identity;  /* the highest that this process or an ancestor has taken */

MAVCG_PRIVATE void start_counting(void) {
    uint64_t *none = NULL;
    if (__atomic_load_n(&identity_word, __ATOMIC_ACQUIRE)) return;
    uint64_t *word = word_cleared_in_children();
    if (word && !__atomic_compare_exchange_n(&identity_word, &none, word, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        free_cleared_word(word); /* another thread was faster */
}

/* Return the identity of the calling process. last_identity is incremented before the identity is used, so that a child
 * forked in between never takes the same one. */
static uint64_t process_identity(void) {
    uint64_t *word = __atomic_load_n(&identity_word, __ATOMIC_ACQUIRE), none = 0;
    if (!word) return process_id();
    uint64_t identity = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    if (identity) return identity;
    identity = __atomic_add_fetch(&last_identity, 1, __ATOMIC_ACQ_REL);
    return __atomic_compare_exchange_n(word, &none, identity, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ? identity : none;
}

static void register_function(struct mavcg_state *state, struct mavcg_function *function) {
    struct mavcg_function *none = NULL;
    if (!__atomic_compare_exchange_n(&function->next, &none, MAVCG_LIST_END, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return; /* another thread registers it */
    struct mavcg_function *head = __atomic_load_n(&state->counted, __ATOMIC_RELAXED);
    do __atomic_store_n(&function->next, head ? head : MAVCG_LIST_END, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&state->counted, &head, function, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

static struct mavcg_function *first_function(struct mavcg_state *state) {
    struct mavcg_function *head = __atomic_load_n(&state->counted, __ATOMIC_ACQUIRE);
    return head ? head : MAVCG_LIST_END;
}

static struct mavcg_function *next_function(struct mavcg_function *function) {
    return __atomic_load_n(&function->next, __ATOMIC_ACQUIRE);
}

enum { OWNER_STARTS = 1, WAITS_FOR_START = 10000 };

/* Reset the parent's counts in a forked child. One thread does it while the others wait, but not for ever: a signal
 * handler may have interrupted that thread. */
static void own_counts(struct mavcg_state *state, unsigned versions) {
    uint64_t mine = process_identity() << 1;
    uint64_t owner = __atomic_load_n(&state->owner, __ATOMIC_ACQUIRE);
    if (owner == mine) return;
    if ((owner | OWNER_STARTS) != (mine | OWNER_STARTS) &&
        __atomic_compare_exchange_n(&state->owner, &owner, mine | OWNER_STARTS, 0, __ATOMIC_ACQUIRE,
                                    __ATOMIC_ACQUIRE)) {
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

MAVCG_RARE MAVCG_PRIVATE void count_run(const struct mavcg_set *set, struct mavcg_function *function, unsigned id) {
    own_counts(set->state, set->versions);
    if (!__atomic_load_n(&function->next, __ATOMIC_RELAXED)) register_function(set->state, function);
    __atomic_fetch_add(&function->runs[id], 1, __ATOMIC_RELAXED);
}

static void print_runs(const struct mavcg_set *set, struct mavcg_function *function) {
    for (unsigned id = MAVCG_GENERIC; id < set->versions; id++) {
        uint64_t runs = __atomic_load_n(&function->runs[id], __ATOMIC_RELAXED);
        struct digits digits;
        struct line line;
        if (!runs) continue;
        start_line(&line);
        add_text(&line, function->name);
        add_text(&line, " ");
        add_text(&line, core_name(set, id));
        add_text(&line, " ");
        add_text(&line, number_text(&digits, runs, 10));
        end_line(&line);
    }
}

/* Print from the end of the list: its head is the function that was registered last. */
MAVCG_RARE MAVCG_PRIVATE void print_all_runs(const struct mavcg_set *set) {
    struct mavcg_state *state = set->state;
    unsigned functions = 0;
    if (__atomic_load_n(&state->owner, __ATOMIC_ACQUIRE) != process_identity() << 1) return;
    for (struct mavcg_function *f = first_function(state); f != MAVCG_LIST_END; f = next_function(f)) functions++;
    for (; functions; functions--) {
        struct mavcg_function *function = first_function(state);
        for (unsigned step = 1; step < functions; step++) function = next_function(function);
        print_runs(set, function);
    }
}
