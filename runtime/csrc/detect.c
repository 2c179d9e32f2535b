/* The detection library for runtime/binding.py: it reports what the selector would detect on a machine, and is built
 * from the selector's own files. The machine may be a folder of files recorded on a board. The unit includes the
 * sources of facts of both architectures. */
#include "cpu_map.h"
#include "cpuinfo.h"
#include "detect_api.h"
#include "internal.h"
#include "mavcg_core_table.h" /* generated; lists all known cores */
#include "platform.h"
#include "set.h"
#include "sysfs.h"
#include "table.h"
#include "tile_permission.h"

MAVCG_PRIVATE const struct mavcg_set core_set = {
    MAVCG_ABI, MAVCG_VERSIONS, midr_rules, x86_rules, needs, core_names, NULL, NULL, NULL,
};

#define MAVCG_EXPORT __attribute__((visibility("default")))

static void list_cpu(void *context, unsigned cpu) { ((uint8_t *)context)[cpu] = 1; }

static void ignore_part(void *context, unsigned cpu, uint32_t midr, bool is_shared) {
    (void)context, (void)cpu, (void)midr, (void)is_shared;
}

static void ignore_x86(void *context, struct x86_identity identity) { (void)context, (void)identity; }

/* Mark all present CPUs, offline ones included; without that list, the CPUs in /proc/cpuinfo. */
static void list_cpus(const struct mavcg_machine *machine, uint8_t *listed) {
    struct cpuinfo_reader reader = {list_cpu, ignore_part, ignore_x86, listed};
    if (!each_present_cpu(machine, list_cpu, listed)) read_cpuinfo(machine, &reader);
}

MAVCG_EXPORT const char *mavcg_detect(const char *root, int live, const char *map, uint8_t *listed, uint8_t *id,
                                      uint8_t *how, uint32_t *seen, size_t *fault_at, size_t *fault_bytes) {
#if defined(__aarch64__)
    struct mavcg_machine machine = {root, true, !live, live != 0};
#else
    struct mavcg_machine machine = {root, !live, true, live != 0};
#endif
    struct mavcg_table table = {.id = id, .how = how, .seen = seen};
    if (map) {
        struct map_fault fault = fill_from_map(&table, map);
        *fault_at = (size_t)(fault.part - map);
        *fault_bytes = fault.bytes;
        if (fault.what) return fault.what;
    }
    list_cpus(&machine, listed);
    fill_table(&machine, &table, MAVCG_NO_CPU);
    int running = live ? query_cpu() : MAVCG_NO_CPU;
    if (running >= 0 && running < MAVCG_CPUS && !known_core(&table, (unsigned)running))
        fill_table(&machine, &table, running);
    return NULL;
}

MAVCG_EXPORT const char *mavcg_how_words(unsigned how) { return source_text(how); }

MAVCG_EXPORT int mavcg_tiles_permitted(void) { return tiles_permitted(); }
