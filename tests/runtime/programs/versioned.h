/* A multi-versioned function as the generated code lays it out, by hand: which() returns the id of the version that ran.
 * SET is the core set's tag. Up to six cores. */
#ifndef VERSIONED_H
#define VERSIONED_H

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "mavcg_runtime.h"

MAVCG_DECLARE(SET)
extern struct mavcg_state MAVCG_NAME(state, SET) __attribute__((visibility("hidden")));

#define select_for_set MAVCG_NAME(select, SET)
#define version_for_set MAVCG_NAME(version, SET)
#define state_of_set MAVCG_NAME(state, SET)
#define offset_of_set MAVCG_NAME(rseq_offset, SET)
#define table_of_set MAVCG_NAME(core_of_cpu, SET)

enum { VERSIONS = 8 };

static int which_slow(void);
static int which_1(void) { return 1; }
static int which_2(void) { return 2; }
static int which_3(void) { return 3; }
static int which_4(void) { return 4; }
static int which_5(void) { return 5; }
static int which_6(void) { return 6; }
static int which_7(void) { return 7; }

static void *const which_versions[VERSIONS] = {
    (void *)which_slow, (void *)which_1, (void *)which_2, (void *)which_3,
    (void *)which_4,    (void *)which_5, (void *)which_6, (void *)which_7,
};
static uint64_t which_runs[VERSIONS];
static struct mavcg_function which_desc = {"which", which_versions, which_runs, 0};

static int which_slow(void) { return ((int (*)(void))select_for_set(&which_desc))(); }

static inline int which(void) { return ((int (*)(void))version_for_set(&which_desc))(); }

static inline void run_on(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set)) {
        perror("sched_setaffinity");
        exit(77);
    }
}

#endif
