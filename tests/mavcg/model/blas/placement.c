/* Waits with spin_apart beside a caller, and says "moved kept": whether the thread left the caller's CPU, and whether
 * it may run on the same CPUs as before. First bound to each CPU, then for a caller on an unknown CPU, then free to
 * move. */
#define _GNU_SOURCE 1
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define MAVCG_AMALGAMATION 1
#include "engine_machine.c"
#include "blas_placement.c"
#include "engine_wait.c"

enum { WAIT_NS = 20000 };

/* here: the caller's CPU is that of this thread, which a scheduler may move before it looks: it is tried again. */
static void wait_beside(uint32_t caller_cpu, bool here) {
    uint32_t word = 0;
    struct blas_placement placement = {&caller_cpu, 0};
    cpu_set_t before, after;
    sched_getaffinity(0, sizeof before, &before);
    for (int tries = 0; tries < 20 && !placement.moved_ns; tries++) {
        if (here) caller_cpu = running_cpu();
        spin_apart(&word, 0, WAIT_NS, &placement);
    }
    sched_getaffinity(0, sizeof after, &after);
    printf("%d %d\n", placement.moved_ns != 0, CPU_EQUAL(&before, &after));
}

int main(void) {
    uint16_t cpus[MAVCG_CPUS];
    cpu_set_t all, one;
    uint32_t count = allowed_cpus(cpus, MAVCG_CPUS);
    sched_getaffinity(0, sizeof all, &all);
    for (uint32_t i = 0; i < count; i++) {
        CPU_ZERO(&one);
        CPU_SET(cpus[i], &one);
        sched_setaffinity(0, sizeof one, &one);
        wait_beside(cpus[i], false); /* no other CPU */
    }
    wait_beside(UNKNOWN_CPU, false);
    sched_setaffinity(0, sizeof all, &all);
    wait_beside(0, true);
    return 0;
}
