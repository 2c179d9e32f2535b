/* Types and constants that all files of the model engine share.
 *
 * Tools compile each file alone. For a library the files are joined with the model's tables into one translation unit
 * (runtime/amalgamation.py, runtime/model_text.py), so that only the API is exported. The engine needs libc and its
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

/* Base of an operand's address. The addresses of IN_INPUT and IN_OUTPUT, and those of states with two copies, are known
 * only during a run, so these operands are also listed by number. IN_FAULT, IN_COUNT, IN_COUNTED: words of the
 * context. */
enum engine_base { IN_ARENA, IN_CONSTANTS, IN_INPUT, IN_OUTPUT, IN_STATE, IN_FAULT, IN_COUNT, IN_COUNTED };

/* The copy of a state that an operand addresses. READ_COPY and WRITTEN_COPY change places after each run. */
enum engine_copy { ONLY_COPY, READ_COPY, WRITTEN_COPY };

struct engine_operand {
    int64_t offset;       /* in bytes, of row 0; may lie outside of the base if the buffer lacks row 0 */
    uint32_t base, index; /* index: number of the input, output or count; of a state, of enum engine_copy */
};

/* A state in a context: `bytes` bytes at `offset`, and in a second copy SWAPPED_BYTES after it if it is not in place.
 * initial: offset of its first value in the constants; -1: zeros. shaped: its axes up to the last one that follows from
 * bounded dimensions, 0: none does; states_counts has the numbers of their counts from first_count on. moves: the place
 * of an element depends on the lengths (engine_state_rows.h). */
struct engine_state {
    uint64_t offset, bytes;
    int64_t initial;
    uint32_t in_place, moves, shaped, first_count;
};

/* Describes how a step, or its rows from first_row on, is run. step: index of its mavcg_step. Chunks are multiples of
 * min_chunk_rows; one call of the kernel computes at most call_rows, with bounded dimensions the last one of a chunk up
 * to a quarter more. speeds: the row of speed_table with the speeds of the core types; 0: all equal. */
struct engine_step {
    uint32_t first_row, rows, min_chunk_rows, call_rows, kernel, first_operand, speeds, step;
};

/* Takes the place of a kernel's number for a copy step: its rows are lines of MOVED_LINE bytes, copied from the first
 * operand to the second. */
static const uint32_t MOVE = 0xFFFFFFFF;
enum { MOVED_LINE = 64 };

/* In place of the number of a loop's condition: all iterations are run. */
static const uint32_t NO_CONDITION = 0xFFFFFFFF;

/* A loop: phases begin to end - 1 are run `trips` times, one after the other, but only as long as the byte at operand
 * number `condition` is not 0, which is read before each iteration. After an iteration the operands that moving_table
 * lists from first_moving to end_moving - 1 advance by their strides, in bytes; after the loop they are where they were
 * before it. The loops in it follow, up to number `after` - 1. trips, strides: at the longest lengths of bounded
 * dimensions (engine_counts.h). */
struct engine_loop {
    uint32_t begin, end, trips, condition, first_moving, end_moving, after;
};

struct engine_moving {
    uint32_t operand;
    int64_t stride;
};

/* Where the length of a bounded dimension is read: an axis of an input has factor * length + addend elements, where the
 * length is in steps of the dimension. input: 0xFFFFFFFF for a length that the context keeps (engine_kept). */
struct engine_length {
    uint32_t input, axis;
    int64_t factor, addend;
};

/* A bounded dimension of states that grow: after a run its length is count number `next` of that run, at most `largest`.
 * One that is more than the dimension's bound ends further runs. */
struct engine_kept {
    uint32_t dimension, next;
    int64_t largest;
};

enum { CORE_IDS = 256, CORE_WORD = 64 };

/* A number of threads and the core types that they may run on: one bit for each core id. */
struct engine_plan {
    uint32_t threads;
    uint64_t cores[CORE_IDS / CORE_WORD];
};

/* A stage of a pipeline: phases begin to end - 1. plan: the CPUs predicted for it. A plan without cores means any CPU,
 * with as many threads as the stage's share of the CPUs. */
struct engine_stage {
    uint32_t begin, end;
    struct engine_plan plan;
};

/* What is done with the pages of constants begin to end - 1, in bytes: before a phase, or beside it and those that
 * follow. In order of phase, and of these three; the table ends with phase 0xFFFFFFFF, which no program has. */
enum { PAGES_RELEASE, PAGES_RELEASE_BESIDE, PAGES_MAP };
struct engine_pages {
    uint32_t phase, advice;
    uint64_t begin, end;
};

/* An operand that one stage passes to another, in a ring of `copies` buffers at a distance of `stride` bytes; frame n
 * uses copy n % copies. */
struct engine_ring_operand {
    uint32_t operand, copies;
    uint64_t stride;
};

enum {
    MAX_THREADS = 1024,
    CACHE_LINE = 128, /* the largest of any core; x86 fetches neighbouring lines in pairs */
    SCRATCH_ALIGN = 128,
    ARENA_ALIGN = 4096, /* page-aligned: the speed of a context does not vary with malloc's addresses */
};

/* A context's threads, and the active step. Fields that many threads write have cache lines of their own. */
struct engine_pool {
    uint64_t spin_ns; /* time for which a waiting thread polls before it sleeps; 0: it sleeps at once */
    uint32_t first_posted;
    uint32_t stop;
    uint32_t sleepers;      /* threads to wake when `posted` changes */
    uint32_t caller_sleeps; /* the caller sleeps: wake it when `done` is complete */
    uint32_t virtual_cpus;  /* CPUs of a virtual machine, if the context does not restrict its threads; else 0 */
    uint32_t in_steps; /* number of threads between a read of the ticket and their last use of it; see leave_steps */
    struct engine_thread *threads;
    uint32_t on_core[CORE_IDS]; /* number of threads (caller included) last seen on a core of each type */
    uint32_t caller_core;
    /* The active step and its taken rows (engine_chunk.h). A ticket includes the step's number, so that a chunk always
     * belongs to a known step. */
    __attribute__((aligned(CACHE_LINE))) uint64_t ticket;
    /* Number of steps posted so far; threads wait for it to change. It shares a cache line with the ticket, which a
     * woken thread reads next. */
    uint32_t posted;
    uint64_t team_total; /* total of struct engine_team for this step */
    uint32_t team_fastest;
    /* Number of finished rows of the step. */
    __attribute__((aligned(CACHE_LINE))) uint32_t done;
};

/* What a run does with pages of constants (engine_paging.c). */
struct engine_pager {
    uint32_t next;        /* row of page_table that comes next in this run */
    uint32_t first, last; /* rows of the work that threads may take, the last one exclusive */
    uint32_t work;        /* enum pager_work of engine_paging.c */
};

struct mavcg_context {
    struct process_state *process; /* runs and threads of this process, see engine_process.h */
    bool cleared_in_child;         /* the kernel clears *process in a forked child */
    uint32_t threads;
    uint32_t begin, end; /* phases of a run, end exclusive: all, or those of a stage */
    uint32_t
        *counts; /* [COUNTS], which follow from the lengths of the next run; NULL: all are fixed (engine_shape.h) */
    int64_t *lengths;                     /* [DIMENSIONS] of the next run, in steps, from which the counts follow */
    const mavcg_tensor *inputs, *outputs; /* of a run */
    mavcg_tensor *shaped;  /* the context's own memory of both, [INPUTS + OUTPUTS]; NULL: they are the model's tables */
    int64_t *counted;      /* [COUNTED] words for lengths that a run decides (engine_counted.h) */
    mavcg_tensor *present; /* [OUTPUTS] as the last run made them; NULL: they are those of `outputs` */
    uint32_t flags;
    uint32_t fault;      /* kernels set it to 1 for an invalid index; they write no other word but counted ones */
    uint32_t float_mode; /* rounding and denormal modes of the thread in run */
    uint32_t turn;       /* 0 or 1: the copy that a run reads of states with two */
    bool undefined;      /* a run that did not end has changed states: nothing runs before reset or restore */
    const struct engine_plan *plan; /* NULL: threads may run on any CPU */
    void (*boundary)(void *data);   /* called before each step of a run, in its thread; NULL: nothing is */
    void *boundary_data;
    const struct shared_memory *shared; /* the application's memory; NULL: arena and scratch are its own */
    char *arena, *scratch, *states;
    void **operands; /* [OPERANDS] addresses; each run sets those of inputs and outputs */
    void *library;   /* handle that keeps the code loaded while the context exists; NULL: the application has it */
    struct engine_pool pool;
    struct engine_pager pager; /* of a program with rows in page_table */
};

struct engine_thread {
    struct mavcg_context *context;
    uint32_t number; /* from 1; 0 is the caller */
    uint32_t core;   /* id of the core that it was last seen on */
    int32_t id;      /* the system's number of it */
    bool sleeps;
    bool kept_off; /* it is woken on another CPU than the caller's; for the caller alone */
    pthread_t handle;
};

#include "mavcg_model_tables.h" /* generated, see runtime/model_text.py */

MAVCG_DECLARE(MAVCG_SET)

#endif
