/* The run-time selector on a machine whose /proc and /sys are the input.
 *
 * The input: files, each after a line "=PATH" with the path from /, such as "=proc/cpuinfo" or
 * "=sys/devices/system/cpu/cpu3/regs/identification/midr_el1". "=map" is MAVCG_CPU_MAP, "=trace" MAVCG_TRACE; those of
 * "=proc/self/environ" are read too. Every CPU must have a version that there is, a map with a fault must change nothing,
 * and a second look must find what the first one did. */
#define MAVCG_AMALGAMATION 1
#define MAVCG_ARM_SOURCES 1
#define MAVCG_X86_SOURCES 1
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "set.h"

/* The system's own are replaced: files come from the input, lines go nowhere. */
#define open_file system_open_file
#define read_file system_read_file
#define close_file system_close_file
#define write_stderr system_write_stderr
#define environment system_environment
#include "platform_linux.c"
#include "process_linux.c"
#undef open_file
#undef read_file
#undef close_file
#undef write_stderr
#undef environment

enum { MOST_FILES = 64, MOST_OPEN = 8 };

struct file {
    const char *path, *text;
    size_t path_bytes, bytes;
};

static struct file files[MOST_FILES];
static struct {
    const struct file *file;
    size_t at;
} opened[MOST_OPEN];
static unsigned file_count, open_count;
static volatile unsigned char seen_byte;

static const struct file *file_of(const char *path) {
    size_t bytes = strlen(path);
    for (unsigned i = 0; i < file_count; i++)
        if (files[i].path_bytes == bytes && !memcmp(files[i].path, path, bytes)) return &files[i];
    return NULL;
}

static int open_file(const char *path) {
    const struct file *file = file_of(path[0] == '/' ? path + 1 : path);
    if (!file) return -1;
    for (int fd = 0; fd < MOST_OPEN; fd++)
        if (!opened[fd].file) {
            opened[fd].file = file, opened[fd].at = 0;
            open_count++;
            return fd;
        }
    abort(); /* files are not closed */
}

static long read_file(int fd, char *buffer, size_t bytes) {
    const struct file *file = opened[fd].file;
    if (!file) abort();
    size_t left = file->bytes - opened[fd].at, got = left < bytes ? left : bytes;
    memcpy(buffer, file->text + opened[fd].at, got);
    opened[fd].at += got;
    return (long)got;
}

static void close_file(int fd) {
    if (!opened[fd].file) abort();
    opened[fd].file = NULL;
    open_count--;
}

static void write_stderr(const struct text_part *parts, int count) {
    for (int i = 0; i < count; i++)
        for (size_t at = 0; at < parts[i].bytes; at++) seen_byte = (unsigned char)parts[i].text[at];
}

static char **environment(void) { return NULL; } /* so that it is read from the file */

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

static void need(int condition) {
    if (!condition) abort();
}

static void split(const char *data, size_t bytes) {
    const char *end = data + bytes;
    file_count = 0;
    for (const char *at = data; at < end && file_count < MOST_FILES;) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at)), *next = end;
        if (!line_end) line_end = end;
        struct file *file = NULL;
        if (*at == '=') {
            file = &files[file_count++];
            file->path = at + 1, file->path_bytes = (size_t)(line_end - at - 1);
        }
        const char *text = line_end < end ? line_end + 1 : end;
        for (const char *from = text; file && from < end; from++)
            if (*from == '=' && from[-1] == '\n') {
                next = from;
                break;
            }
        if (file) file->text = text, file->bytes = (size_t)(next - text);
        at = file ? next : text;
    }
}

static char *text_of(const char *name) {
    const struct file *file = file_of(name);
    if (!file) return NULL;
    size_t bytes = file->bytes;
    while (bytes && file->text[bytes - 1] == '\n') bytes--;
    char *text = malloc(bytes + 1);
    if (!text) abort();
    memcpy(text, file->text, bytes);
    text[bytes] = 0;
    return text;
}

static uint8_t ids[2][MAVCG_CPUS], hows[2][MAVCG_CPUS];
static uint32_t words[2][MAVCG_CPUS];

static void look(int number, const char *map, int arm, int x86) {
    struct mavcg_machine machine = {"", arm, x86, 0};
    struct mavcg_table table = {.id = ids[number], .how = hows[number], .seen = words[number]};
    memset(ids[number], 0, sizeof ids[number]);
    memset(hows[number], 0, sizeof hows[number]);
    memset(words[number], 0, sizeof words[number]);
    if (map) {
        struct map_fault fault = fill_from_map(&table, map);
        if (fault.what) {
            need(fault.part >= map && fault.part + fault.bytes <= map + strlen(map));
            for (int cpu = 0; cpu < MAVCG_CPUS; cpu++) need(!ids[number][cpu]);
        }
    }
    fill_table(&machine, &table, MAVCG_NO_CPU);
    fill_table(&machine, &table, 3);
    need(uniform_core(&machine, &table) < MAVCG_VERSIONS);
    for (int cpu = 0; cpu < MAVCG_CPUS; cpu++) {
        need(ids[number][cpu] < MAVCG_VERSIONS);
        need(hows[number][cpu] <= MAVCG_HOW_CPUID);
    }
    need(!open_count);
}

static void *versions[MAVCG_VERSIONS];
static uint64_t runs[MAVCG_VERSIONS];
static struct mavcg_function function = {"f", versions, runs, NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    split((const char *)data, bytes);
    char *map = text_of("map"), *trace = text_of("trace");
    need(read_trace(trace, 1) <= (TRACE_RUNS | TRACE_CPUS));
    int kind = 1 + (int)(bytes % 3); /* a look at an Arm machine, at an x86, or at both: tables of all CPUs take time */
    look(0, map, kind & 1, kind >> 1);
    look(1, map, kind & 1, kind >> 1);
    need(!memcmp(ids[0], ids[1], sizeof ids[0]) && !memcmp(words[0], words[1], sizeof words[0]));
    /* As a library does it, on this machine, with what the files add. */
    memset(core_set.state, 0, sizeof *core_set.state);
    memset(core_set.core_of_cpu, 0, MAVCG_CPUS);
    *core_set.rseq_offset = 0;
    function.next = NULL;
    for (unsigned id = 0; id < MAVCG_VERSIONS; id++) versions[id] = &versions[id];
    void *version = select_in(&core_set, &function);
    need(version >= (void *)&versions[MAVCG_GENERIC] && version <= (void *)&versions[MAVCG_VERSIONS - 1]);
    need(!open_count);
    free(map);
    free(trace);
    return 0;
}
