/* Runs the detection on each folder that is an argument, with MAP as the map if it is set; for sanitizers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "detect_api.h"
#include "mavcg_runtime.h"

static uint8_t listed[MAVCG_CPUS], id[MAVCG_CPUS], how[MAVCG_CPUS];
static uint32_t seen[MAVCG_CPUS];

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        size_t at = 0, bytes = 0;
        memset(id, 0, sizeof id);
        memset(listed, 0, sizeof listed);
        const char *map = getenv("MAP");
        char *copy = map ? strdup(map) : NULL; /* so that a byte too far is seen */
        const char *fault = mavcg_detect(argv[i], 0, copy, listed, id, how, seen, &at, &bytes);
        if (fault) printf("fault %zu %zu %s\n", at, bytes, fault);
        else printf("ids %d %d %d %d\n", id[0], id[1], id[2], id[3]);
        if (fault && at + bytes > strlen(map)) return 1;
        free(copy);
    }
    return 0;
}
