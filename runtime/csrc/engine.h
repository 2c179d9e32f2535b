/* Types and constants that all files of the model engine share.
 *
 * Each file is compiled alone by tools. Libraries get the files joined into one translation unit with the model's tables
 * (runtime/amalgamation.py, runtime/model_text.py), so that only the API leaves a library. The engine needs libc and its
 * threads. */
#ifndef MAVCG_ENGINE_H
#define MAVCG_ENGINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "application_memory.h"
#include "engine_api.h"
#include "internal.h"
#include "kernel_api.h"

/* Base of an operand's address. Addresses of IN_INPUT and IN_OUTPUT are known in a run only: these operands are also
 * listed by number. IN_FAULT: the context's fault word. */
enum engine_base { IN_ARENA, IN_CONSTANTS, IN_INPUT, IN_OUTPUT, IN_FAULT };

struct engine_operand {
    int64_t offset;       /* in bytes; of a row 0 that is not there it may lead out of its base */
    uint32_t base, index; /* index: number of the input or output */
};

/* How a step, or rows of one from first_row on, is run; mavcg_step number `step` describes it. Chunks are multiples of min_chunk_rows, calls of the kernel compute at most
 * call_rows. speeds: the line of speed_table with the speeds of the core types; 0: they are all alike. */
struct engine_step {
    uint32_t first_row, rows, min_chunk_rows, call_rows, kernel, first_operand, speeds, step;
};

/* In place of a kernel's number: rows are lines of MOVED_LINE bytes that are copied from the first operand to the second. */
static const uint32_t MOVE = 0xFFFFFFFF;
enum { MOVED_LINE = 64 };

enum { CORE_IDS = 256, CORE_WORD = 64 };

/* A number of threads and the core types that they keep to, a bit for each core id. */
struct engine_plan {
    uint32_t threads;
    uint64_t cores[CORE_IDS / CORE_WORD];
};

/* A stage of a pipeline: phases from begin to before end. plan: the CPUs predicted for it; no cores: any, and as many
 * threads as its share of the CPUs. */
struct engine_stage {
    uint32_t begin, end;
    struct engine_plan plan;
};

/* An operand that stages hand on, in a buffer of `copies` copies at a distance of `stride` bytes; frame n has copy
 * n % copies. */
struct engine_ring_operand {
    uint32_t operand, copies;
    uint64_t stride;
};

enum {
    MAX_THREADS = 1024,
    CACHE_LINE = 128, /* of the largest core there is; x86 fetches neighbours in pairs */
    SCRATCH_ALIGN = 128,
    ARENA_ALIGN = 4096, /* so that a context's speed does not depend on the address that malloc returns */
};

/* A context's threads, and the step that is being done. Fields that many threads write lie in lines of their own. */
struct engine_pool {
    uint64_t spin_ns; /* time that a waiting thread polls before it sleeps; 0: it sleeps at once */
    uint32_t first_posted;
    uint32_t stop;
    uint32_t sleepers;      /* threads to wake when `posted` changes */
    uint32_t caller_sleeps; /* the caller is to be woken when `done` is complete */
    struct engine_thread *threads;
    uint32_t on_core[CORE_IDS]; /* number of threads, the caller's included, last seen on a core of each type */
    uint32_t caller_core;
    /* The step and its taken rows (engine_chunk.h): a ticket says by itself which step's rows a chunk has. */
    __attribute__((aligned(CACHE_LINE))) uint64_t ticket;
    /* Counts the steps that were posted: threads wait for its change. It lies beside the ticket, which a thread that sees
     * it change reads next. */
    uint32_t posted;
    uint64_t team_total; /* of struct engine_team, for this step */
    uint32_t team_fastest;
    /* Rows of the step that are finished. */
    __attribute__((aligned(CACHE_LINE))) uint32_t done;
};

struct mavcg_context {
    struct process_state *process; /* runs and threads of this process, see engine_process.h */
    bool cleared_in_child;         /* the kernel clears that in a forked child */
    uint32_t threads;
    uint32_t begin, end; /* phases of a run: all, or those of a stage */
    uint32_t flags;
    uint32_t fault; /* kernels make it 1 where an index does not exist; threads of a run write nothing else to it */
    uint32_t float_mode;                /* rounding and denormals of the thread that is in run */
    const struct engine_plan *plan;     /* NULL: threads may run on any CPU */
    const struct shared_memory *shared; /* of its application; NULL: arena and scratch are its own */
    char *arena, *scratch;
    void **operands; /* [OPERANDS] addresses; those of inputs and outputs are set by each run */
    void *library;   /* handle that keeps the code loaded while the context exists; NULL: its application has it */
    struct engine_pool pool;
};

struct engine_thread {
    struct mavcg_context *context;
    uint32_t number; /* 1.. ; 0 is the caller */
    uint32_t core;   /* the core id that it was last seen on */
    pthread_t handle;
};

#include "mavcg_model_tables.h" /* generated, see runtime/model_text.py */

MAVCG_DECLARE(MAVCG_SET)

#endif
