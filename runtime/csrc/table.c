/* Which core type each CPU is: MAVCG_CPU_MAP, then sysfs, then /proc/cpuinfo, then the registers of the CPU we run on.
 * Only the first answer for a CPU is kept, so that several threads may fill one table at the same time: they find
 * the same answers. */

MAVCG_STATIC unsigned known_core(const struct mavcg_table *table, unsigned cpu) {
    return __atomic_load_n(&table->id[cpu], __ATOMIC_RELAXED);
}

static const char how_words[][24] = {"no source knows it", "MAVCG_CPU_MAP", "sysfs midr_el1", "/proc/cpuinfo",
                                     "mrs MIDR_EL1", "sysfs cpu type lists", "cpuid"};

/* seen: what was read, as struct mavcg_table has it; a MIDR_EL1 has an implementer in its top byte. */
MAVCG_STATIC void say_how(struct line *line, enum mavcg_how how, uint32_t seen) {
    struct digits room, more_room;
    add_text(line, " (");
    add_text(line, how_words[how]);
    if (seen >> 24) {
        add_text(line, " 0x");
        add_text(line, number_text(&room, seen, 16));
    } else if (seen) {
        add_text(line, " family ");
        add_text(line, number_text(&room, seen >> 16, 10));
        add_text(line, " model ");
        add_text(line, number_text(&more_room, seen & 0xFFFF, 10));
    }
    add_text(line, ")");
    end_line(line);
}

MAVCG_STATIC void say_cpu(unsigned cpu, const char *core, enum mavcg_how how, uint32_t seen) {
    struct digits room;
    struct line line;
    start_line(&line);
    add_text(&line, "cpu ");
    add_text(&line, number_text(&room, cpu, 10));
    add_text(&line, ": ");
    add_text(&line, core);
    say_how(&line, how, seen);
}

MAVCG_STATIC void store_core(struct mavcg_table *table, unsigned cpu, unsigned id, enum mavcg_how how, uint32_t seen) {
    uint8_t none = MAVCG_NOT_KNOWN;
    if (cpu >= MAVCG_CPUS || !id) return;
    if (!__atomic_compare_exchange_n(&table->id[cpu], &none, (uint8_t)id, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
    if (table->how) table->how[cpu] = (uint8_t)how;
    if (table->seen) table->seen[cpu] = seen;
    if (table->say) say_cpu(cpu, core_name(MAVCG_SET_OF(table), id), how, seen);
}

/* All CPUs that nothing is known about; said in one line. */
MAVCG_STATIC void store_rest(struct mavcg_table *table, unsigned id, enum mavcg_how how, uint32_t seen) {
    struct line line;
    unsigned stored = 0;
    for (unsigned cpu = 0; cpu < MAVCG_CPUS; cpu++) {
        if (known_core(table, cpu)) continue;
        stored = 1;
        __atomic_store_n(&table->id[cpu], (uint8_t)id, __ATOMIC_RELAXED);
        if (table->how) table->how[cpu] = (uint8_t)how;
        if (table->seen) table->seen[cpu] = seen;
    }
    if (!table->say || !stored) return;
    start_line(&line);
    add_text(&line, "all other cpus: ");
    add_text(&line, core_name(MAVCG_SET_OF(table), id));
    say_how(&line, how, seen);
}

/* Fill from a map text; nothing is stored when it has a fault, which is then told. */
MAVCG_STATIC struct map_fault fill_from_map(struct mavcg_table *table, const char *map) {
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
    if (rest) store_rest(table, rest, MAVCG_HOW_MAP, 0);
    return fault;
}

/* One round of looking. only: the one CPU that is asked for, or MAVCG_NO_CPU for all. */
struct search {
    const struct mavcg_machine *machine;
    struct mavcg_table *table; /* NULL: only look */
    int only;
    unsigned open;           /* CPUs of the list that are still not known */
    uint32_t midr;           /* the last one that /proc/cpuinfo gave for a CPU that is looked for */
    struct x86_identity x86; /* what it says there */
    enum x86_kind kind;      /* of the hybrid's CPUs that are being listed */
};

/* By hand: a compiler may call memset for an initialiser. */
MAVCG_STATIC void start_search(struct search *search, const struct mavcg_machine *machine, struct mavcg_table *table,
                               int only) {
    search->machine = machine;
    search->table = table;
    search->only = only;
    search->open = search->midr = 0;
    search->x86.vendor = X86_ANY_VENDOR;
    search->x86.family = search->x86.model = 0;
    search->kind = X86_NO_KIND;
}

MAVCG_STATIC void look_in_sysfs(void *context, unsigned cpu) {
    struct search *search = context;
    if (known_core(search->table, cpu)) return;
    uint32_t midr = sysfs_midr(search->machine->root, cpu);
    if (midr) store_core(search->table, cpu, core_of_midr(MAVCG_SET_OF(search->table), midr), MAVCG_HOW_SYSFS_MIDR, midr);
    else search->open++;
}

MAVCG_STATIC void take_part(void *context, unsigned cpu, uint32_t midr) {
    struct search *search = context;
    if (search->only == MAVCG_NO_CPU || search->only == (int)cpu) {
        search->midr = midr;
        if (search->table) store_core(search->table, cpu, core_of_midr(MAVCG_SET_OF(search->table), midr), MAVCG_HOW_CPUINFO, midr);
    }
}

/* A part that stands for "the CPU that reads this file": believed only where we know which one that is. */
MAVCG_STATIC void take_shared_part(void *context, uint32_t midr) {
    struct search *search = context;
    if (search->machine->live && search->only != MAVCG_NO_CPU && ask_cpu() == search->only)
        take_part(context, (unsigned)search->only, midr);
}

MAVCG_STATIC void take_x86(void *context, struct x86_identity identity) { ((struct search *)context)->x86 = identity; }

MAVCG_STATIC void look_in_cpuinfo(struct search *search) {
    struct cpuinfo_reader reader = {NULL, take_part, take_shared_part, take_x86, search};
    read_cpuinfo(search->machine->root, &reader);
}

/* What the files say about one CPU, without storing it; 0 where they say nothing. */
MAVCG_STATIC uint32_t midr_in_files(const struct mavcg_machine *machine, unsigned cpu) {
    struct search search;
    uint32_t midr = sysfs_midr(machine->root, cpu);
    if (midr) return midr;
    start_search(&search, machine, NULL, (int)cpu);
    look_in_cpuinfo(&search);
    return search.midr;
}

/* MIDR_EL1 of the CPU we run on, with its number in *cpu; 0 where it cannot be read or we were moved while reading. */
MAVCG_STATIC uint32_t midr_here(int *cpu) {
    for (int tries = 0; tries < 4; tries++) {
        *cpu = ask_cpu();
        uint32_t midr = *cpu < 0 ? 0 : running_midr();
        if (!midr) return 0;
        if (ask_cpu() == *cpu) return midr;
    }
    return 0;
}

/* Files that contradict the CPU itself are another machine's: an emulator shows those of its host. */
MAVCG_STATIC int files_are_ours(const struct mavcg_machine *machine) {
    enum { COMPARED = (int)0xFFF0FFFF }; /* without the architecture field, which /proc/cpuinfo does not have */
    int cpu;
    if (!machine->live) return 1;
    uint32_t here = midr_here(&cpu);
    uint32_t said = here ? midr_in_files(machine, (unsigned)cpu) : 0;
    return !here || !said || ((here ^ said) & (uint32_t)COMPARED) == 0;
}

MAVCG_STATIC void fill_arm(struct search *search) {
    if (files_are_ours(search->machine)) {
        unsigned listed = 1;
        if (search->only == MAVCG_NO_CPU) listed = each_present_cpu(search->machine->root, look_in_sysfs, search);
        else look_in_sysfs(search, (unsigned)search->only);
        if (!listed || search->open) look_in_cpuinfo(search);
    }
    if (search->machine->live && search->only != MAVCG_NO_CPU && !known_core(search->table, (unsigned)search->only)) {
        int cpu;
        uint32_t midr = midr_here(&cpu);
        if (midr) store_core(search->table, (unsigned)cpu, core_of_midr(MAVCG_SET_OF(search->table), midr), MAVCG_HOW_MRS, midr);
    }
}

/* The version for an x86 CPU, which must also have the instructions for it. */
MAVCG_STATIC void store_x86(struct search *search, int cpu, enum x86_kind kind, enum mavcg_how how) {
    unsigned id = core_of_x86(MAVCG_SET_OF(search->table), search->x86, kind);
    uint32_t seen = (uint32_t)search->x86.family << 16 | search->x86.model;
    if (search->machine->live && !x86_can_run(MAVCG_SET_OF(search->table), id)) id = MAVCG_GENERIC;
    if (cpu == MAVCG_NO_CPU) store_rest(search->table, id, how, seen);
    else store_core(search->table, (unsigned)cpu, id, how, seen);
}

MAVCG_STATIC void take_kind(void *context, unsigned cpu) {
    struct search *search = context;
    if (search->only == MAVCG_NO_CPU || search->only == (int)cpu)
        store_x86(search, (int)cpu, search->kind, MAVCG_HOW_SYSFS_KIND);
}

MAVCG_STATIC void fill_x86(struct search *search) {
    static const uint8_t kinds[HYBRID_LISTS] = {X86_CORE, X86_ATOM, X86_ATOM};
    const struct mavcg_machine *machine = search->machine;
    int hybrid = 0, live = machine->live;
    if (live) search->x86 = cpuid_identity();
    if (!live || cpuid_says_hybrid()) {
        hybrid = live;
        for (int list = 0; list < HYBRID_LISTS; list++) {
            search->kind = (enum x86_kind)kinds[list];
            if (each_hybrid_cpu(machine->root, (enum hybrid_list)list, take_kind, search)) hybrid = 1;
        }
    }
    if (!hybrid && search->x86.vendor)
        store_x86(search, MAVCG_NO_CPU, X86_NO_KIND, live ? MAVCG_HOW_CPUID : MAVCG_HOW_CPUINFO);
    if (live && search->only != MAVCG_NO_CPU && !known_core(search->table, (unsigned)search->only)) {
        enum x86_kind kind = cpuid_kind();
        if (ask_cpu() == search->only) store_x86(search, search->only, kind, MAVCG_HOW_CPUID);
    }
}

/* Fill in all CPUs, or only one that has just been seen for the first time. A CPU that no source knows yet stays
 * MAVCG_NOT_KNOWN: it may be off, and is asked for again when it runs. */
MAVCG_STATIC void fill_table(const struct mavcg_machine *machine, struct mavcg_table *table, int only) {
    struct search search;
    start_search(&search, machine, table, only);
    if (MAVCG_ARM_SOURCES && machine->arm) fill_arm(&search);
    if (MAVCG_X86_SOURCES && machine->x86) fill_x86(&search);
}

/* The one core type of all CPUs that may be here, or MAVCG_NOT_KNOWN when they differ or one is not known. */
struct sameness {
    const struct mavcg_table *table;
    unsigned id;
    int differs;
};

MAVCG_STATIC void compare_core(void *context, unsigned cpu) {
    struct sameness *same = context;
    unsigned id = known_core(same->table, cpu);
    if (same->id == MAVCG_NOT_KNOWN) same->id = id;
    if (id == MAVCG_NOT_KNOWN || id != same->id) same->differs = 1;
}

MAVCG_STATIC unsigned only_core(const struct mavcg_machine *machine, const struct mavcg_table *table) {
    struct sameness same = {table, MAVCG_NOT_KNOWN, 0};
    if (!each_present_cpu(machine->root, compare_core, &same))
        for (unsigned cpu = 0; cpu < MAVCG_CPUS && !same.differs; cpu++) compare_core(&same, cpu);
    return same.differs ? MAVCG_NOT_KNOWN : same.id;
}
