/* What the files of the model engine share. All of it is one translation unit (engine.c) with the model's tables
 * (runtime/model_text.py writes them), so that nothing but the API leaves a library. It needs libc and its threads. */
#ifndef MAVCG_ENGINE_H
#define MAVCG_ENGINE_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine_api.h"
#include "internal.h"
#include "kernel_api.h"

/* Where an operand lies. Those of IN_INPUT and IN_OUTPUT, which are known in a run only, are also listed by number. */
enum engine_base { IN_ARENA, IN_CONSTANTS, IN_INPUT, IN_OUTPUT };

struct engine_operand {
    uint64_t offset;      /* in bytes */
    uint32_t base, index; /* index: which input or output */
};

/* How a step is run; mavcg_step describes it. Claims are multiples of grain, calls of the kernel at most `block` rows.
 * weights: which line of weight_table has the speeds of the core types; 0: they are all alike. */
struct engine_step {
    uint32_t rows, grain, block, function, first_operand, weights;
};

enum { CORE_IDS = 256, CORE_WORD = 64 };

/* A number of threads and the core types that they keep to, a bit for each core id. */
struct engine_plan {
    uint32_t threads;
    uint64_t cores[CORE_IDS / CORE_WORD];
};

enum {
    MAX_THREADS = 1024,
    CACHE_LINE = 128,   /* of the largest core there is; neighbours are fetched in pairs on x86 */
    SCRATCH_ALIGN = 128,
    ARENA_ALIGN = 4096, /* so that a context's speed does not depend on where malloc happens to put it */
};

/* A context's threads, and the step that is being done. Fields that many threads write stand apart. */
struct engine_pool {
    uint32_t spin;    /* waiting threads look for a while before they sleep */
    uint32_t first_posted;
    uint32_t stop;
    uint32_t sleepers;      /* threads that want to be woken when `posted` changes */
    uint32_t caller_sleeps; /* the caller wants to be woken when `done` is complete */
    struct engine_thread *threads;
    uint32_t on_core[CORE_IDS]; /* how many threads, the caller's included, were last seen on a core of each type */
    uint32_t caller_core;
    /* The step and its claimed rows (engine_claim.c): what a claim got says by itself which step's rows they are. */
    __attribute__((aligned(CACHE_LINE))) uint64_t ticket;
    /* Counts the steps that were handed over: what threads wait for. Beside the ticket, which whoever sees it change
     * wants next. */
    uint32_t posted;
    uint64_t team_total; /* of struct engine_team, for this step */
    uint32_t team_fastest;
    /* Rows of the step that are finished. */
    __attribute__((aligned(CACHE_LINE))) uint32_t done;
};

struct mavcg_context {
    struct process_state *process; /* runs and threads of this process, see engine_process.c */
    uint32_t cleared_in_child;     /* the kernel clears that in a forked child */
    uint32_t threads;
    uint32_t flags;
    uint32_t float_mode; /* rounding and denormals of the thread that is in run */
    const struct engine_plan *plan; /* NULL: threads may be anywhere */
    char *arena, *scratch;
    void **operands; /* [OPERANDS] pointers, those of inputs and outputs set by each run */
    void *library;   /* keeps the code loaded while the context is there */
    struct engine_pool pool;
};

struct engine_thread {
    struct mavcg_context *context;
    uint32_t number; /* 1.. ; 0 is the caller */
    uint32_t core;   /* the core id that it was last seen on */
    pthread_t handle;
};

#endif
