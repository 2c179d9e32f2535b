/* Reads MAVCG_CPU_MAP and MAVCG_TRACE. */
#include "settings.h"

#include "cpu_map.h"
#include "internal.h"
#include "names.h"
#include "platform.h"
#include "process.h"
#include "table.h"
#include "text.h"

/* Return the value of a variable in the environment that the program was started with, copied to value_buffer. Returns
 * "?", which is invalid for every variable, if the value is too long, and NULL if the variable is not set. */
static const char *initial_environment_value(const char *name, char *value_buffer, size_t buffer_bytes) {
    struct reader in;
    const char *value = NULL;
    in.at = in.end = 0;
    in.fd = open_file("/proc/self/environ");
    if (in.fd < 0) return NULL;
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

MAVCG_PRIVATE uint32_t read_settings(const struct mavcg_set *set, struct mavcg_table *table) {
    char buffer[512];
    bool report = !__atomic_exchange_n(&set->state->complained, 1, __ATOMIC_RELAXED);
    if (is_privileged()) return 0;
    uint32_t trace = read_trace(environment_value("MAVCG_TRACE", buffer, sizeof buffer), report);
    const char *map = environment_value("MAVCG_CPU_MAP", buffer, sizeof buffer);
    table->report = (trace & TRACE_CPUS) != 0;
    if (map) {
        struct map_fault fault = fill_from_map(table, map);
        if (fault.what && report) report_map_fault(set, &fault);
    }
    return trace;
}

MAVCG_PRIVATE void report_missing_settings(void) {
    const uint32_t map_name = 0xa5203665;   /* MAVCG_CPU_MAP */
    const uint32_t trace_name = 0x68527127; /* MAVCG_TRACE */
    static const char message[] =
        "mavcg: MAVCG_CPU_MAP and MAVCG_TRACE need LD_PRELOAD=libmavcg_rt.so (mavcg runtime)\n";
    struct text_part part;
    part.text = message;
    part.bytes = sizeof message - 1;
    for (char **entry = environment(); entry && *entry; entry++) {
        const char *at = *entry;
        uint32_t hash = MAVCG_HASH_START;
        for (; *at && *at != '='; at++) hash = MAVCG_HASH(hash, *at);
        if ((hash != map_name && hash != trace_name) || !*at || !at[1] || (at[1] == '0' && !at[2])) continue;
        write_stderr(&part, 1);
        return;
    }
}
