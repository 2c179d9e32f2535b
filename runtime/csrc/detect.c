/* What the runtime would find out about a machine, for runtime/binding.py: a shared library for the desk, made of
 * the runtime's own files. The machine may be a folder of files recorded on a board. */
#define MAVCG_ARM_SOURCES 1
#define MAVCG_X86_SOURCES 1
#include "internal.h"
#include "detect_api.h"
#include "mavcg_core_table.h" /* of all known cores */

static const struct mavcg_set core_set = {
    MAVCG_ABI, MAVCG_VERSIONS, midr_rules, x86_rules, x86_needs, core_names, NULL, NULL, NULL,
};

#if defined(__APPLE__)
#include "platform_macos.c"
#else
#include "platform_linux.c"
#endif
#include "text.c"
#include "names.c"
#include "x86.c"
#include "cpu_map.c"
#include "cpuinfo.c"
#include "sysfs.c"
#include "table.c"

#define MAVCG_EXPORT __attribute__((visibility("default")))

MAVCG_STATIC void list_cpu(void *context, unsigned cpu) { ((uint8_t *)context)[cpu] = 1; }

MAVCG_STATIC void ignore_part(void *context, unsigned cpu, uint32_t midr) { (void)context, (void)cpu, (void)midr; }

MAVCG_STATIC void ignore_shared(void *context, uint32_t midr) { (void)context, (void)midr; }

MAVCG_STATIC void ignore_x86(void *context, struct x86_identity identity) { (void)context, (void)identity; }

/* Which CPUs there are: those that may be switched on, or else those that /proc/cpuinfo shows. */
MAVCG_STATIC void list_cpus(const char *root, uint8_t *listed) {
    struct cpuinfo_reader reader = {list_cpu, ignore_part, ignore_shared, ignore_x86, listed};
    if (!each_present_cpu(root, list_cpu, listed)) read_cpuinfo(root, &reader);
}

MAVCG_EXPORT const char *mavcg_detect(const char *root, int live, const char *map, uint8_t *listed, uint8_t *id,
                                      uint8_t *how, uint32_t *seen, size_t *fault_at, size_t *fault_bytes) {
#if defined(__aarch64__)
    struct mavcg_machine machine = {root, 1, !live, live};
#else
    struct mavcg_machine machine = {root, !live, 1, live};
#endif
    struct mavcg_table table = {id, how, seen, 0};
    if (map) {
        struct map_fault fault = fill_from_map(&table, map);
        *fault_at = (size_t)(fault.part - map);
        *fault_bytes = fault.bytes;
        if (fault.what) return fault.what;
    }
    list_cpus(root, listed);
    fill_table(&machine, &table, MAVCG_NO_CPU);
    int here = live ? ask_cpu() : MAVCG_NO_CPU;
    if (here >= 0 && here < MAVCG_CPUS && !known_core(&table, (unsigned)here)) fill_table(&machine, &table, here);
    return NULL;
}

MAVCG_EXPORT const char *mavcg_how_words(unsigned how) {
    return how < sizeof how_words / sizeof how_words[0] ? how_words[how] : "";
}
