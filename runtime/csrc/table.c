/* Fills the table of core types from all sources of facts. */
#include "table.h"

#include "cpu_map.h"
#include "cpuinfo.h"
#include "internal.h"
#include "names.h"
#include "platform.h"
#include "set.h"
#include "sysfs.h"
#include "text.h"
#include "x86.h"

MAVCG_PRIVATE unsigned known_core(const struct mavcg_table *table, unsigned cpu) {
    return __atomic_load_n(&table->id[cpu], __ATOMIC_RELAXED);
}

MAVCG_PRIVATE const char *source_text(unsigned how) {
    static const char texts[][24] = {"no source knows it", "MAVCG_CPU_MAP",        "sysfs midr_el1", "/proc/cpuinfo",
                                     "mrs MIDR_EL1",       "sysfs cpu type lists", "cpuid"};
    return how < sizeof texts / sizeof texts[0] ? texts[how] : "";
}

/* End a line with the source of a fact and the value read there. A MIDR_EL1 is recognised by its top byte, the
 * implementer. */
static void end_line_with_source(struct line *line, enum mavcg_how how, uint32_t seen) {
    struct digits digits, more_digits;
    add_text(line, " (");
    add_text(line, source_text(how));
    if (seen >> 24) {
        add_text(line, " 0x");
        add_text(line, number_text(&digits, seen, 16));
    } else if (seen) {
        add_text(line, " family ");
        add_text(line, number_text(&digits, seen >> 16, 10));
        add_text(line, " model ");
        add_text(line, number_text(&more_digits, seen & 0xFFFF, 10));
    }
    add_text(line, ")");
    end_line(line);
}

static void report_cpu(unsigned cpu, const char *core, enum mavcg_how how, uint32_t seen) {
    struct digits digits;
    struct line line;
    start_line(&line);
    add_text(&line, "cpu ");
    add_text(&line, number_text(&digits, cpu, 10));
    add_text(&line, ": ");
    add_text(&line, core);
    end_line_with_source(&line, how, seen);
}

static void record_source(struct mavcg_table *table, unsigned cpu, enum mavcg_how how, uint32_t seen) {
    if (!MAVCG_READS_RECORDS) return;
    if (table->how) table->how[cpu] = (uint8_t)how;
    if (table->seen) table->seen[cpu] = seen;
}

MAVCG_RARE MAVCG_PRIVATE void store_core(struct mavcg_table *table, unsigned cpu, unsigned id, enum mavcg_how how,
                                         uint32_t seen) {
    uint8_t none = MAVCG_NOT_KNOWN;
    if (cpu >= MAVCG_CPUS || !id) return;
    if (!__atomic_compare_exchange_n(&table->id[cpu], &none, (uint8_t)id, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    record_source(table, cpu, how, seen);
    if (!MAVCG_SMALL && table->report) report_cpu(cpu, core_name(MAVCG_SET_OF(table), id), how, seen);
}

MAVCG_PRIVATE void store_unknown_cpus(struct mavcg_table *table, unsigned id, enum mavcg_how how, uint32_t seen) {
    struct line line;
    bool stored = false;
    for (unsigned cpu = 0; cpu < MAVCG_CPUS; cpu++) {
        if (known_core(table, cpu)) continue;
        stored = true;
        __atomic_store_n(&table->id[cpu], (uint8_t)id, __ATOMIC_RELAXED);
        record_source(table, cpu, how, seen);
    }
    if (MAVCG_SMALL || !table->report || !stored) return;
    start_line(&line);
    add_text(&line, "all other cpus: ");
    add_text(&line, core_name(MAVCG_SET_OF(table), id));
    end_line_with_source(&line, how, seen);
}

MAVCG_PRIVATE struct map_fault fill_from_map(struct mavcg_table *table, const char *map) {
    struct map_fault fault;
    unsigned rest;
    int highest;
    map_lookup(MAVCG_SET_OF(table), map, MAVCG_NO_CPU, &highest, &rest, &fault);
    if (fault.what) return fault;
    for (int cpu = 0; cpu <= highest; cpu++) {
        int ignored_highest;
        unsigned ignored_rest;
        unsigned id = map_lookup(MAVCG_SET_OF(table), map, cpu, &ignored_highest, &ignored_rest, &fault);
        store_core(table, (unsigned)cpu, id, MAVCG_HOW_MAP, 0);
    }
    if (rest) store_unknown_cpus(table, rest, MAVCG_HOW_MAP, 0);
    return fault;
}

/* One search through the sources. only: the CPU to identify, or MAVCG_NO_CPU for all. */
struct search {
    const struct mavcg_machine *machine;
    struct mavcg_table *table; /* NULL: store nothing */
    int only;
    bool moved;              /* the thread left the CPU before identifying it */
    unsigned missing;        /* Arm: listed CPUs that are not identified yet */
    uint32_t midr;           /* Arm: the last one in /proc/cpuinfo for a CPU of the search */
    struct x86_identity x86; /* x86: the processor */
    enum x86_kind kind;      /* x86: kind of the hybrid's CPUs in the current list */
};

/* Set member by member: for an initialiser the compiler may call memset, which is not available. */
static void start_search(struct search *search, const struct mavcg_machine *machine, struct mavcg_table *table,
                         int only) {
    search->machine = MAVCG_READS_RECORDS ? machine : NULL;
    search->table = table;
    search->only = only;
    search->moved = false;
    search->missing = search->midr = 0;
    if (!MAVCG_X86_SOURCES) return;
    search->x86.vendor = X86_ANY_VENDOR;
    search->x86.family = search->x86.model = 0;
    search->kind = X86_NO_KIND;
}

/* Store the id of the version for a MIDR_EL1. */
static void store_midr(struct search *search, unsigned cpu, enum mavcg_how how, uint32_t midr) {
    store_core(search->table, cpu, core_of_midr(search->machine, MAVCG_SET_OF(search->table), midr), how, midr);
}

/* A shared part stands for the CPU that reads the file: it is stored only if it is known which CPU that is, and not by the
 * small selector. */
static void store_part(void *context, unsigned cpu, uint32_t midr, bool is_shared) {
    struct search *search = context;
    if (is_shared) {
        if (MAVCG_SMALL || !MAVCG_IS_LIVE(search->machine) || search->only == MAVCG_NO_CPU) return;
        cpu = (unsigned)search->only;
        search->moved |= query_cpu() != search->only;
        if (search->moved) return;
    }
    if (search->only == MAVCG_NO_CPU || search->only == (int)cpu) {
        search->midr = midr;
        if (search->table) store_midr(search, cpu, MAVCG_HOW_CPUINFO, midr);
    }
}

static void store_x86_identity(void *context, struct x86_identity identity) {
    ((struct search *)context)->x86 = identity;
}

static void search_cpuinfo(struct search *search) {
    struct cpuinfo_reader reader = {NULL, store_part, MAVCG_READS_RECORDS ? store_x86_identity : NULL, search};
    read_cpuinfo(search->machine, &reader);
}

static void search_sysfs(void *context, unsigned cpu) {
    struct search *search = context;
    if (known_core(search->table, cpu)) return;
    uint32_t midr = sysfs_midr(search->machine, cpu);
    if (midr) store_midr(search, cpu, MAVCG_HOW_SYSFS_MIDR, midr);
    else search->missing++;
}

static void search_files(struct search *search) {
    unsigned listed = !MAVCG_SMALL;
    if (!MAVCG_SMALL && search->only == MAVCG_NO_CPU) listed = each_present_cpu(search->machine, search_sysfs, search);
    else if (!MAVCG_SMALL) search_sysfs(search, (unsigned)search->only);
    if (!listed || search->missing) search_cpuinfo(search);
}

/* Return MIDR_EL1 of one CPU from the files, without storing it; 0 if the files do not have it. */
static uint32_t midr_in_files(const struct mavcg_machine *machine, unsigned cpu) {
    struct search search;
    uint32_t midr = MAVCG_SMALL ? 0 : sysfs_midr(machine, cpu);
    if (midr) return midr;
    start_search(&search, machine, NULL, (int)cpu);
    search_cpuinfo(&search);
    return search.midr;
}

/* Read the number and MIDR_EL1 of the CPU that the thread runs on; *midr is 0 if it cannot be read. Returns false if
 * the thread was moved during each of several attempts: then the values are not valid. */
static bool read_current_midr(int *cpu, uint32_t *midr) {
    for (int tries = 0; tries < 4; tries++) {
        *cpu = query_cpu();
        *midr = *cpu < 0 ? 0 : running_midr();
        if (!*midr || query_cpu() == *cpu) return true;
    }
    return false;
}

/* Read the files if the register cannot be read, and for all CPUs if they agree with it. Files that contradict it, or
 * do not have its CPU, describe another machine: an emulator may show those of its host. If the thread is moved at each
 * attempt, the files are not trusted, and each CPU is queried when it is first used. */
static void fill_arm(struct search *search) {
    enum { COMPARED = (int)0xFFF0FFFF }; /* without the architecture field, which /proc/cpuinfo lacks */
    int cpu = MAVCG_NO_CPU;
    uint32_t midr = 0;
    bool stayed = !MAVCG_IS_LIVE(search->machine) || read_current_midr(&cpu, &midr);
    if (stayed && (!midr || (search->only == MAVCG_NO_CPU &&
                             !((midr ^ midr_in_files(search->machine, (unsigned)cpu)) & (uint32_t)COMPARED))))
        search_files(search);
    if (!MAVCG_IS_LIVE(search->machine) || search->only == MAVCG_NO_CPU ||
        known_core(search->table, (unsigned)search->only))
        return;
    if (stayed && midr) store_midr(search, (unsigned)cpu, MAVCG_HOW_MRS, midr);
    search->moved |= !stayed || cpu != search->only;
}

/* Store the id of the version for an x86 CPU. */
static void store_x86(struct search *search, int cpu, enum x86_kind kind, enum mavcg_how how) {
    unsigned id = MAVCG_GENERIC;
    if (MAVCG_IS_LIVE(search->machine))
        id = core_of_x86(search->machine, MAVCG_SET_OF(search->table), oldest_possible(search->x86), kind);
    if (id == MAVCG_GENERIC) id = core_of_x86(search->machine, MAVCG_SET_OF(search->table), search->x86, kind);
    uint32_t seen = (uint32_t)search->x86.family << 16 | search->x86.model;
    if (cpu == MAVCG_NO_CPU) store_unknown_cpus(search->table, id, how, seen);
    else store_core(search->table, (unsigned)cpu, id, how, seen);
}

static void store_kind(void *context, unsigned cpu) {
    struct search *search = context;
    if (search->only == MAVCG_NO_CPU || search->only == (int)cpu)
        store_x86(search, (int)cpu, search->kind, MAVCG_HOW_SYSFS_KIND);
}

/* Store the CPUs of each list; returns false if there are no lists. */
static bool search_hybrid_lists(struct search *search) {
    static const uint8_t kinds[HYBRID_LISTS] = {X86_CORE, X86_ATOM, X86_ATOM};
    bool found = false;
    for (int list = 0; list < HYBRID_LISTS; list++) {
        search->kind = (enum x86_kind)kinds[list];
        if (each_hybrid_cpu(search->machine, (enum hybrid_list)list, store_kind, search)) found = true;
    }
    return found;
}

static void fill_x86(struct search *search) {
    bool live = MAVCG_IS_LIVE(search->machine), hybrid = live && cpuid_says_hybrid();
    if (live) search->x86 = cpuid_identity();
    if (!MAVCG_SMALL && (!live || hybrid)) hybrid |= search_hybrid_lists(search);
    if (!hybrid && search->x86.vendor)
        store_x86(search, MAVCG_NO_CPU, X86_NO_KIND, live ? MAVCG_HOW_CPUID : MAVCG_HOW_CPUINFO);
    if (live && search->only != MAVCG_NO_CPU && !known_core(search->table, (unsigned)search->only)) {
        enum x86_kind kind = cpuid_kind();
        if (query_cpu() == search->only) store_x86(search, search->only, kind, MAVCG_HOW_CPUID);
        else search->moved = true;
    }
}

MAVCG_PRIVATE bool fill_table(const struct mavcg_machine *machine, struct mavcg_table *table, int only) {
    struct search search;
    start_search(&search, machine, table, only);
    if (MAVCG_ARM_SOURCES && (!MAVCG_READS_RECORDS || machine->arm)) fill_arm(&search);
    if (MAVCG_X86_SOURCES && (!MAVCG_READS_RECORDS || machine->x86)) fill_x86(&search);
    return !search.moved;
}
