/* The state of a core set's runtime, and what fills it: the environment, then the machine.
 *
 * No lock anywhere: several threads may fill the table at the same time (they find the same answers), a signal
 * handler may interrupt that and call a dispatched function, and a fork leaves nothing taken. */

#ifndef MAVCG_ROOT
#define MAVCG_ROOT "" /* tests look at folders of their own */
#endif

static const struct mavcg_machine this_machine = {MAVCG_ROOT, MAVCG_ARM_SOURCES, MAVCG_X86_SOURCES, 1};

/* The value of a variable of the environment that the program was started with, copied to room; "?" when it has no room,
 * which is no value that we take. NULL where it is not set. */
MAVCG_STATIC const char *started_with(const char *name, char *room, size_t bytes) {
    struct reader in;
    const char *value = NULL;
    if (!open_reader(&in, "", "/proc/self/environ")) return NULL;
    for (int c = next_char(&in); c != END_OF_FILE && !value; c = next_char(&in)) {
        const char *at = name;
        size_t length = 0;
        for (; *at && c == *at; at++) c = next_char(&in);
        if (!*at && c == '=') {
            value = room;
            for (c = next_char(&in); c > 0 && length < bytes; c = next_char(&in)) room[length++] = (char)c;
            if (length == bytes) value = "?";
            else room[length] = 0;
        }
        while (c > 0) c = next_char(&in);
        if (c == END_OF_FILE) break;
    }
    close_file(in.fd);
    return value;
}

/* The value of an environment variable; NULL where it is not set or empty. libc's list is not there yet in an ifunc
 * resolver, and never for an Android library that does not name libc.so: then it is the kernel's. */
MAVCG_STATIC const char *environment_value(const char *name, char *room, size_t room_bytes) {
    size_t bytes = text_bytes(name);
    char **entry = environment();
    const char *value = entry ? NULL : started_with(name, room, room_bytes);
    for (; entry && *entry; entry++)
        if (same_text(name, *entry, bytes) && (*entry)[bytes] == '=') value = *entry + bytes + 1;
    return value && *value ? value : NULL;
}

MAVCG_STATIC uint32_t read_trace(const char *text, int tell) {
    uint32_t trace = 0;
    struct line line;
    while (text && *text) {
        size_t bytes = 0;
        while (text[bytes] && text[bytes] != ',') bytes++;
        if (same_text("1", text, bytes)) {
            trace |= TRACE_RUNS;
        } else if (same_text("cpus", text, bytes)) {
            trace |= TRACE_CPUS;
        } else if (!same_text("0", text, bytes) && tell) {
            start_line(&line);
            add_text(&line, "MAVCG_TRACE: '");
            add_bytes(&line, text, bytes);
            add_text(&line, "' is not 1, cpus or 0; it is left out");
            end_line(&line);
        }
        text += bytes + (text[bytes] == ',');
    }
    return trace;
}

MAVCG_STATIC void complain_about_map(const struct mavcg_set *set, const struct map_fault *fault) {
    struct line line;
    start_line(&line);
    add_text(&line, "MAVCG_CPU_MAP: '");
    add_bytes(&line, fault->part, fault->bytes);
    add_text(&line, "' ");
    add_text(&line, fault->what);
    add_text(&line, "; the whole map is ignored. Write CPUS=CORE,.. as in 0-3=generic; cores:");
    for (unsigned id = MAVCG_GENERIC; id < set->versions; id++) {
        add_text(&line, " ");
        add_text(&line, core_name(set, id));
    }
    end_line(&line);
}

MAVCG_STATIC struct mavcg_table shared_table(const struct mavcg_set *set, uint32_t trace) {
    struct mavcg_table table = {.id = set->core_of_cpu, .say = (trace & TRACE_CPUS) != 0};
#if defined(MAVCG_SHARED_SELECTOR)
    table.set = set;
#endif
    return table;
}

/* Let dispatchers find the CPU by themselves, unless each run is to be counted. */
MAVCG_STATIC void publish_rseq(const struct mavcg_set *set) {
    if (!(__atomic_load_n(&set->state->trace, __ATOMIC_RELAXED) & TRACE_RUNS))
        __atomic_store_n(set->rseq_offset, rseq_offset(), __ATOMIC_RELAXED);
}

/* Fill the table and let dispatchers use it. Running it twice, or in two threads at once, changes nothing. */
MAVCG_STATIC void start_selecting(const struct mavcg_set *set) {
    int heed = !is_privileged();
    int tell = !__atomic_exchange_n(&set->state->complained, 1, __ATOMIC_RELAXED);
    char room[512];
    uint32_t trace = heed ? read_trace(environment_value("MAVCG_TRACE", room, sizeof room), tell) : 0;
    const char *map = heed ? environment_value("MAVCG_CPU_MAP", room, sizeof room) : NULL;
    struct mavcg_table table = shared_table(set, trace);
    if (map) {
        struct map_fault fault = fill_from_map(&table, map);
        if (fault.what && tell) complain_about_map(set, &fault);
    }
    fill_table(&this_machine, &table, MAVCG_NO_CPU);
    unsigned only = only_core(&this_machine, &table);
    table.say = 0;
    if (only) store_rest(&table, only, MAVCG_HOW_UNKNOWN, 0);
    __atomic_store_n(&set->state->trace, trace, __ATOMIC_RELAXED);
    __atomic_store_n(&set->state->only_core, only, __ATOMIC_RELAXED);
    publish_rseq(set);
    __atomic_store_n(&set->state->ready, 1, __ATOMIC_RELEASE);
}

