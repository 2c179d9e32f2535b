/* Reads the core types of CPUs from sysfs. */
#include "sysfs.h"

#include "internal.h"
#include "platform.h"
#include "text.h"

MAVCG_PRIVATE uint32_t sysfs_midr(const struct mavcg_machine *machine, unsigned cpu) {
    static const char before[] = "/sys/devices/system/cpu/cpu", after[] = "/regs/identification/midr_el1";
    char path[sizeof before + sizeof after + 8];
    struct digits digits;
    struct reader in;
    size_t bytes = 0;
    for (const char *at = before; *at; at++) path[bytes++] = *at;
    for (const char *at = number_text(&digits, cpu, 10); *at; at++) path[bytes++] = *at;
    for (const char *at = after; *at; at++) path[bytes++] = *at;
    path[bytes] = 0;
    if (!open_reader(&in, machine, path)) return 0;
    struct token midr = read_token(&in);
    close_file(in.fd);
    return midr.number > 0 && midr.number <= UINT32_MAX ? (uint32_t)midr.number : 0;
}

MAVCG_PRIVATE unsigned each_present_cpu(const struct mavcg_machine *machine, void (*visit)(void *, unsigned),
                                        void *context) {
    return each_listed_cpu(machine, "/sys/devices/system/cpu/present", visit, context);
}

MAVCG_PRIVATE unsigned each_hybrid_cpu(const struct mavcg_machine *machine, enum hybrid_list list,
                                       void (*visit)(void *, unsigned), void *context) {
    static const char paths[HYBRID_LISTS][32] = {
        "/sys/devices/cpu_core/cpus",
        "/sys/devices/cpu_atom/cpus",
        "/sys/devices/cpu_lowpower/cpus",
    };
    return each_listed_cpu(machine, paths[list], visit, context);
}
