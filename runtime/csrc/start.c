/* The state of a core set's runtime, and what fills it: the environment, then the machine.
 *
 * No lock anywhere: several threads may fill the table at the same time (they find the same answers), a signal
 * handler may interrupt that and call a dispatched function, and a fork leaves nothing taken. */

#define select_state MAVCG_NAME(state, MAVCG_SET)
#define select_version MAVCG_NAME(select, MAVCG_SET)
#define published_rseq_offset MAVCG_NAME(rseq_offset, MAVCG_SET)
#define core_of_cpu MAVCG_NAME(core_of_cpu, MAVCG_SET)

MAVCG_SHARED uint64_t published_rseq_offset;
MAVCG_SHARED uint8_t core_of_cpu[MAVCG_CPUS];
MAVCG_SHARED struct mavcg_state select_state;

#ifndef MAVCG_ROOT
#define MAVCG_ROOT "" /* tests look at folders of their own */
#endif

static const struct mavcg_machine this_machine = {MAVCG_ROOT, MAVCG_ARM_SOURCES, MAVCG_X86_SOURCES, 1};

/* The value of an environment variable, NULL where it is not set or empty. */
MAVCG_STATIC const char *environment_value(const char *name) {
    size_t bytes = text_bytes(name);
    for (char **entry = environment(); entry && *entry; entry++)
        if (same_text(name, *entry, bytes) && (*entry)[bytes] == '=') return (*entry)[bytes + 1] ? *entry + bytes + 1 : NULL;
    return NULL;
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

MAVCG_STATIC void complain_about_map(const struct map_fault *fault) {
    struct line line;
    start_line(&line);
    add_text(&line, "MAVCG_CPU_MAP: '");
    add_bytes(&line, fault->part, fault->bytes);
    add_text(&line, "' ");
    add_text(&line, fault->what);
    add_text(&line, "; the whole map is ignored. Write CPUS=CORE,.. as in 0-3=generic; cores:");
    for (unsigned id = MAVCG_GENERIC; id < MAVCG_VERSIONS; id++) {
        add_text(&line, " ");
        add_text(&line, core_name(id));
    }
    end_line(&line);
}

MAVCG_STATIC struct mavcg_table shared_table(uint32_t trace) {
    struct mavcg_table table = {core_of_cpu, NULL, NULL, (trace & TRACE_CPUS) != 0};
    return table;
}

/* Fill the table and let dispatchers use it. Running it twice, or in two threads at once, changes nothing. */
MAVCG_STATIC void start_selecting(void) {
    int heed = !is_privileged();
    int tell = !__atomic_exchange_n(&select_state.complained, 1, __ATOMIC_RELAXED);
    const char *map = heed ? environment_value("MAVCG_CPU_MAP") : NULL;
    uint32_t trace = heed ? read_trace(environment_value("MAVCG_TRACE"), tell) : 0;
    struct mavcg_table table = shared_table(trace);
    if (map) {
        struct map_fault fault = fill_from_map(&table, map);
        if (fault.what && tell) complain_about_map(&fault);
    }
    fill_table(&this_machine, &table, MAVCG_NO_CPU);
    unsigned only = only_core(&this_machine, &table);
    table.say = 0;
    if (only) store_rest(&table, only, MAVCG_HOW_UNKNOWN, 0);
    __atomic_store_n(&select_state.trace, trace, __ATOMIC_RELAXED);
    __atomic_store_n(&select_state.only_core, only, __ATOMIC_RELAXED);
    if (!(trace & TRACE_RUNS)) __atomic_store_n(&published_rseq_offset, rseq_offset(), __ATOMIC_RELAXED);
    __atomic_store_n(&select_state.ready, 1, __ATOMIC_RELEASE);
}

