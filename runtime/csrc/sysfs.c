/* What sysfs says about a CPU's core type. */

/* MIDR_EL1 of a CPU, or 0: Linux Documentation/arch/arm64/cpu-feature-registers.rst. An offline CPU has no file. */
MAVCG_STATIC uint32_t sysfs_midr(const char *root, unsigned cpu) {
    static const char before[] = "/sys/devices/system/cpu/cpu", after[] = "/regs/identification/midr_el1";
    char path[sizeof before + sizeof after + 8];
    struct digits room;
    struct reader in;
    size_t bytes = 0;
    for (const char *at = before; *at; at++) path[bytes++] = *at;
    for (const char *at = number_text(&room, cpu, 10); *at; at++) path[bytes++] = *at;
    for (const char *at = after; *at; at++) path[bytes++] = *at;
    path[bytes] = 0;
    if (!open_reader(&in, root, path)) return 0;
    char token[24];
    int c = next_char(&in);
    int64_t midr = text_number(token, read_token(&in, &c, "", token, sizeof token));
    close_file(in.fd);
    return midr > 0 && midr <= UINT32_MAX ? (uint32_t)midr : 0;
}

/* The CPUs that may be here: those that are off as well, not those that a machine of this kind could have. */
MAVCG_STATIC unsigned each_present_cpu(const char *root, void (*visit)(void *, unsigned), void *context) {
    return each_listed_cpu(root, "/sys/devices/system/cpu/present", visit, context);
}

enum hybrid_list { LIST_CORE, LIST_ATOM, LIST_LOW_POWER_ATOM, HYBRID_LISTS };

/* The CPUs of one kind of an Intel hybrid: each kind has performance counters of its own, with a "cpus" file (Linux
 * tools/perf/Documentation/intel-hybrid.txt; arch/x86/events/intel/core.c names the three). */
MAVCG_STATIC unsigned each_hybrid_cpu(const char *root, enum hybrid_list list, void (*visit)(void *, unsigned),
                                      void *context) {
    static const char paths[HYBRID_LISTS][32] = {
        "/sys/devices/cpu_core/cpus",
        "/sys/devices/cpu_atom/cpus",
        "/sys/devices/cpu_lowpower/cpus",
    };
    return each_listed_cpu(root, paths[list], visit, context);
}
