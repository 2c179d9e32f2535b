/* Reads the environment and fills the table of a core set.
 *
 * There is no lock: several threads may fill the table at the same time (they get the same results), a signal handler
 * may interrupt this and call a dispatched function, and a fork leaves nothing locked. */
#include "start.h"

#include "cpu_map.h"
#include "internal.h"
#include "names.h"
#include "platform.h"
#include "process.h"
#include "table.h"
#include "text.h"
#include "trace.h"
#include "uniform.h"

#ifndef MAVCG_ROOT
#define MAVCG_ROOT "" /* tests use folders of their own */
#endif

MAVCG_PRIVATE const struct mavcg_machine this_machine = {MAVCG_ROOT, MAVCG_ARM_SOURCES, MAVCG_X86_SOURCES, true};

/* Return the value of a variable in the environment that the program was started with, copied to value_buffer. Returns
 * "?", which is invalid for every variable, if the value is too long, and NULL if the variable is not set. */
static const char *initial_environment_value(const char *name, char *value_buffer, size_t buffer_bytes) {
    struct reader in;
    const char *value = NULL;
    if (!open_reader(&in, "", "/proc/self/environ")) return NULL;
    for (int c = next_char(&in); c != END_OF_FILE && !value; c = next_char(&in)) {
        const char *at = name;
        size_t length = 0;
        for (; *at && c == *at; at++) c = next_char(&in);
        if (!*at && c == '=') {
            value = value_buffer;
            for (c = next_char(&in); c > 0 && length < buffer_bytes; c = next_char(&in))
                value_buffer[length++] = (char)c;
            if (length == buffer_bytes) value = "?";
            else value_buffer[length] = 0;
        }
        while (c > 0) c = next_char(&in);
        if (c == END_OF_FILE) break;
    }
    close_file(in.fd);
    return value;
}

/* Return the value of an environment variable; NULL if it is unset or empty. The C library's list does not exist yet in
 * an ifunc resolver, and never exists for an Android library that does not link libc.so: the kernel's copy is read
 * instead. */
static const char *environment_value(const char *name, char *value_buffer, size_t buffer_bytes) {
    size_t bytes = text_bytes(name);
    char **entry = environment();
    const char *value = entry ? NULL : initial_environment_value(name, value_buffer, buffer_bytes);
    for (; entry && *entry; entry++)
        if (same_text(name, *entry, bytes) && (*entry)[bytes] == '=') value = *entry + bytes + 1;
    return value && *value ? value : NULL;
}

MAVCG_PRIVATE uint32_t read_trace(const char *text, bool report) {
    uint32_t trace = 0;
    struct line line;
    while (text && *text) {
        size_t bytes = 0;
        while (text[bytes] && text[bytes] != ',') bytes++;
        if (same_text("1", text, bytes)) {
            trace |= TRACE_RUNS;
        } else if (same_text("cpus", text, bytes)) {
            trace |= TRACE_CPUS;
        } else if (!same_text("0", text, bytes) && report) {
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

static void report_map_fault(const struct mavcg_set *set, const struct map_fault *fault) {
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

MAVCG_PRIVATE struct mavcg_table shared_table(const struct mavcg_set *set, uint32_t trace) {
    struct mavcg_table table = {.id = set->core_of_cpu, .report = (trace & TRACE_CPUS) != 0};
#if defined(MAVCG_SHARED_SELECTOR)
    table.set = set;
#endif
    return table;
}

MAVCG_PRIVATE void publish_rseq(const struct mavcg_set *set) {
    if (!(__atomic_load_n(&set->state->trace, __ATOMIC_RELAXED) & TRACE_RUNS))
        __atomic_store_n(set->rseq_offset, rseq_offset(), __ATOMIC_RELAXED);
}

MAVCG_PRIVATE void start_selecting(const struct mavcg_set *set) {
    bool use_environment = !is_privileged();
    bool report = !__atomic_exchange_n(&set->state->complained, 1, __ATOMIC_RELAXED);
    char buffer[512];
    uint32_t trace = use_environment ? read_trace(environment_value("MAVCG_TRACE", buffer, sizeof buffer), report) : 0;
    const char *map = use_environment ? environment_value("MAVCG_CPU_MAP", buffer, sizeof buffer) : NULL;
    struct mavcg_table table = shared_table(set, trace);
    if (map) {
        struct map_fault fault = fill_from_map(&table, map);
        if (fault.what && report) report_map_fault(set, &fault);
    }
    fill_table(&this_machine, &table, MAVCG_NO_CPU);
    unsigned only = uniform_core(&this_machine, &table);
    table.report = false;
    if (only) store_unknown_cpus(&table, only, MAVCG_HOW_UNKNOWN, 0);
    if (trace & TRACE_RUNS) start_counting();
    __atomic_store_n(&set->state->trace, trace, __ATOMIC_RELAXED);
    __atomic_store_n(&set->state->only_core, only, __ATOMIC_RELAXED);
    publish_rseq(set);
    __atomic_store_n(&set->state->ready, 1, __ATOMIC_RELEASE);
}
