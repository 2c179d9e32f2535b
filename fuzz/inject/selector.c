/* The selector of program libraries: it looks for cores in /proc and /sys while opens and reads fail. There is no status:
 * every CPU must have a version that there is, and a second look, with nothing failing, must find what the first finds
 * on a machine without faults. */
#define MAVCG_AMALGAMATION 1
#define MAVCG_ARM_SOURCES 1
#define MAVCG_X86_SOURCES 1
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "set.h"

/* The system's own, and those that fail. */
#define open_file system_open_file
#define read_file system_read_file
#define close_file system_close_file
#include "platform_linux.c"
#include "process_linux.c"
#undef open_file
#undef read_file
#undef close_file
#include "plan.h"

static int open_count;

static int open_file(const char *path) {
    int error = mavcg_inject_error(INJECT_OPEN), opened = error ? -error : system_open_file(path);
    if (opened >= 0) open_count++;
    return opened;
}

static long read_file(int fd, char *buffer, size_t bytes) {
    int error = mavcg_inject_error(INJECT_READ);
    return error ? -error : system_read_file(fd, buffer, bytes);
}

static void close_file(int fd) {
    if (fd >= 0) open_count--;
    system_close_file(fd);
}

#include "cpu_map.c"
#include "cpuinfo.c"
#include "names.c"
#include "needs.c"
#include "select.c"
#include "set.c"
#include "settings.c"
#include "start.c"
#include "sysfs.c"
#include "table.c"
#include "text.c"
#include "tile_permission.c"
#include "trace.c"
#include "uniform.c"
#include "x86.c"
#include "x86_features.c"

static const char *root;
static uint8_t expected[MAVCG_CPUS];

/* Looks at all CPUs of the recorded board. Returns 0 where an id is none, or a file stays open. */
static int look(uint8_t *ids) {
    static uint8_t hows[MAVCG_CPUS];
    static uint32_t words[MAVCG_CPUS];
    struct mavcg_machine machine = {root, 1, 0, 0};
    struct mavcg_table table = {.id = ids, .how = hows, .seen = words};
    memset(ids, 0, MAVCG_CPUS);
    memset(hows, 0, sizeof hows);
    fill_table(&machine, &table, MAVCG_NO_CPU);
    fill_table(&machine, &table, 1);
    for (int cpu = 0; cpu < MAVCG_CPUS; cpu++)
        if (ids[cpu] >= MAVCG_VERSIONS || hows[cpu] > MAVCG_HOW_CPUID) return 0;
    return !open_count;
}

static void *versions[MAVCG_VERSIONS];
static uint64_t runs[MAVCG_VERSIONS];
static struct mavcg_function function = {"f", versions, runs, NULL};

static int operate(void) {
    static uint8_t ids[MAVCG_CPUS];
    arm(1);
    if (!look(ids)) return WRONG;
    for (unsigned id = 0; id < MAVCG_VERSIONS; id++) versions[id] = &versions[id];
    void *version = select_in(&core_set, &function); /* as a library does it, on this machine */
    arm(0);
    if (version < (void *)&versions[MAVCG_GENERIC] || version > (void *)&versions[MAVCG_VERSIONS - 1]) return WRONG;
    if (open_count || !look(ids) || memcmp(ids, expected, sizeof ids)) return WRONG;
    return RIGHT;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    root = argv[1];
    if (!look(expected) || !expected[0]) {
        fprintf(stderr, "selector BOARD: nothing is found there\n");
        return 2;
    }
    return try_all("selector", operate) ? 1 : 0;
}
