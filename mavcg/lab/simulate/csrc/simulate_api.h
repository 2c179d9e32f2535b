/* Interface of the simulator to Python. Python parses this file with cffi, so it has only plain declarations.

   All times are in cycles of the simulated core. */

enum {
    SIM_REGISTERS = 65, /* x0 to x30 are 0 to 30, sp 31, v0 to v31 32 to 63, nzcv 64 */
    SIM_NO_REGISTER = 255,
    SIM_ROLES = 6, /* roles of an operand: "", acc, addr, data, shifted, and acc with another accumulation between */
    SIM_ACC = 1,
    SIM_ACC_APART = 5,
    SIM_READS = 10,
    SIM_WRITES = 8,
    SIM_USES = 24,
    SIM_UNITS = 64,
    SIM_RULES = 32,
    SIM_LEVELS = 3
};

enum sim_flow { SIM_NEXT, SIM_CONDITION, SIM_JUMP, SIM_CALL, SIM_RETURN, SIM_INDIRECT, SIM_CALL_INDIRECT };

enum sim_memory { SIM_LOAD = 1, SIM_STORE = 2, SIM_PREFETCH = 4, SIM_UNSIZED = 8 };

enum sim_cause {
    SIM_REGISTER_WAIT,
    SIM_WRITE_ORDER,
    SIM_UNIT,
    SIM_NO_DUAL_ISSUE,
    SIM_SPACING,
    SIM_BLOCKED,
    SIM_ALONE,
    SIM_FIRST,
    SIM_MEMORY_WAIT,
    SIM_BRANCH,
    SIM_STORE_BUFFER,
    SIM_WINDOW,
    SIM_ISSUE_QUEUE,
    SIM_LOAD_QUEUE,
    SIM_CALLEE,
    SIM_CAUSES
};

enum sim_end {
    SIM_RETURNED,
    SIM_NEW_BLOCK,
    SIM_EXTERNAL,
    SIM_FAULT,
    SIM_LIMIT,
    SIM_EXCEPTION,
    SIM_MISMATCH,
    SIM_NO_MEMORY,
    SIM_SWITCH /* used only within sim_run */
};

/* A use by one micro-operation: it occupies one of `units` (a bit mask) for so many cycles. */
typedef struct {
    uint64_t units;
    uint32_t cycles;
} sim_use;

/* Resources of an instruction. The first own_count uses belong to the operation, the others to its address update.
   slots: dispatch slots of an out-of-order core. unaligned: extra cycles, also added to `blocks`, for an access that
   crosses a multiple of 16 bytes. no_dual, spaced: bit masks of the rules that apply to the instruction; these/those
   and first/then are the rule's two sides. */
typedef struct {
    sim_use uses[SIM_USES];
    uint32_t use_count, own_count, slots, blocks, unaligned;
    uint32_t first, last, narrows; /* issue slots, as in ClassTiming of mavcg/hardware/timing.py */
    uint32_t no_dual_these, no_dual_those, spaced_first, spaced_then;
} sim_pattern;

/* One instruction. op_class, writeback_class: rows of the latency table. bytes: size of its memory access. writeback:
   the address register that it updates. base to offset: the address operands of a prefetch. beside: in a traced
   program, 1 + the index in the block of the access that a prefetch is beside_offset bytes away from; 0: none is known. */
typedef struct {
    uint32_t bytes;
    uint16_t op_class, writeback_class, pattern;
    uint16_t latency, writeback_latency;
    uint8_t flow, memory, read_count, write_count, writeback;
    uint8_t reads[SIM_READS], roles[SIM_READS], writes[SIM_WRITES];
    uint8_t base, index, extend, shift; /* extend: 0 none, 1 uxtw, 2 sxtw */
    uint8_t queued;                     /* in-order cores: it may wait in the vector queue */
    uint8_t accumulates;                /* in-order cores: see Timing.accumulates of mavcg/hardware/timing.py */
    uint8_t unmodelled;                 /* no timing facts */
    uint16_t beside;
    int64_t offset, beside_offset;
} sim_row;

/* A cache. A hit takes `latency` cycles more than in the level above; transferring a line from the cache takes
   line_cycles. */
typedef struct {
    uint64_t bytes;
    uint32_t ways, latency;
    double line_cycles;
} sim_level;

typedef struct {
    uint32_t in_order, width, unit_count;
    uint32_t spaced_cycles[SIM_RULES];                /* issue distance in cycles, by rule */
    uint32_t reorder_buffer, load_queue, store_queue; /* out of order; in order, store_queue is the store buffer */
    uint32_t issue_queue; /* operations that can wait before each unit; 0: as many as the window holds */
    uint32_t vector_queue, same_cycle_writes; /* in-order cores; see Timing of mavcg/hardware/timing.py */
    uint32_t mispredict, history_bits;
    uint32_t split_cycles; /* extra cycles for an access that crosses a line */
    uint32_t line_bytes, level_count;
    sim_level levels[SIM_LEVELS];
    uint32_t memory_latency, miss_slots, prefetch_lines;
    uint32_t far_lines;      /* distance of prefetches to the last level, for long streams; 0: none */
    uint32_t prefetch_pages; /* 1: prefetching continues across page boundaries */
    uint32_t stream_lines;   /* lines filled by stores after which store misses allocate nothing; 0: never */
    double memory_line_cycles;
    uint32_t callee_cycles;
} sim_machine;

/* A memory access. kind: mask of enum sim_memory. */
typedef struct {
    uint64_t address;
    uint32_t bytes, kind;
} sim_access;

typedef struct {
    uint64_t cycles, instructions, branches, mispredicts, unaligned, prefetches, prefetched_lines, streamed;
    uint64_t stalls[SIM_CAUSES];
    uint64_t hits[SIM_LEVELS], misses[SIM_LEVELS], memory_lines, written_lines;
    uint64_t unmodelled, unknown_addresses; /* of traced programs: instructions without facts; accesses not reported */
} sim_counts;

/* A sampled run since the last report. instructions: all. measured, cycles, stalls: of the units, which alone were
   timed. differences: the sum, over units, of the squared difference to the unit before, in cycles per instruction.
   callee_cycles: of all functions that are not simulated; they are in no unit. seen: instructions whose accesses the
   caches processed; counts: what was counted for these. */
typedef struct {
    uint64_t instructions, seen, measured, units, callee_cycles;
    double cycles, differences;
    uint64_t stalls[SIM_CAUSES];
    sim_counts counts;
} sim_sample;

/* Functions, handle and constants of libunicorn. */
typedef struct {
    void *start, *stop, *hook_add, *hook_del, *reg_read, *control, *handle;
    int32_t hook_block, hook_code, hook_read, hook_write, hook_unmapped, hook_exception, hook_invalid;
    int32_t mem_write, flush;
    int32_t registers[SIM_REGISTERS];
} sim_emulator;

typedef struct sim sim;

/* Create a simulator; returns NULL without memory. machine NULL: code runs, but nothing is timed. */
sim *sim_new(const sim_emulator *emulator, const sim_machine *machine, uint64_t return_address);
void sim_delete(sim *s);

/* Set the latency table, [producer * classes + consumer][role], and the table of patterns. Both are copied. Returns 0
   without memory. */
int sim_tables(sim *s, const int16_t *latencies, uint32_t classes, const sim_pattern *patterns, uint32_t count);

/* Add the instructions of a block; they are copied. */
int sim_add_block(sim *s, uint64_t address, uint32_t bytes, const sim_row *rows, uint32_t count);

/* Make the emulator report the accesses of an instruction whose size is unknown, or the address of a prefetch. */
int sim_watch(sim *s, uint64_t address);
int sim_watch_prefetch(sim *s, uint64_t address, const sim_row *row);

/* Declare addresses `first` to `last` to be functions outside of the image: a jump to them ends sim_run. */
void sim_externals(sim *s, uint64_t first, uint64_t last);

/* Run from an address on. limit: maximum number of instructions. where, size: receive the block, function or access at
   which it ended. Returns an enum sim_end. */
int sim_run(sim *s, uint64_t address, uint64_t limit, uint64_t *where, uint32_t *size);

/* Time a function that is not simulated: it reads `bytes` bytes at `from` (0: none) and writes as many at `to` (0:
   none). */
void sim_callee(sim *s, uint64_t from, uint64_t to, uint64_t bytes);

/* Let the core idle until the functions that were timed last, and their transfers, have ended. */
void sim_settle(sim *s);

/* Sample from here on: in each `period` instructions, time one unit of `unit` instructions at a pseudo-random position
   (seed), after `warm` instructions that are timed but not counted. Caches process these instructions and `functional`
   ones before them, and `functional` ones before `length`, where a part ends; the branch predictor processes all. unit
   0: nothing is timed. period 0: everything is timed. Earlier samples are discarded. */
void sim_sampling(sim *s, uint64_t period, uint32_t unit, uint32_t warm, uint64_t functional, uint64_t length,
                  uint64_t seed);
/* End the running unit, and report. */
void sim_take_sample(sim *s, sim_sample *sample);

/* Reset the counts; caches, predictor and pipeline keep their state. */
void sim_begin(sim *s);
/* The same, but the call's instructions follow those of the call before without a pause: a loop calls the function. */
void sim_begin_next(sim *s);
uint64_t sim_now(const sim *s);
void sim_end_counts(sim *s, sim_counts *counts);

/* Send accesses through the caches alone, at the given cycles; for tests and for planners. late: receives the extra
   cycles of each access. */
void sim_trace(sim *s, const sim_access *accesses, const uint64_t *cycles, uint32_t count, uint64_t *late);

/* Predict one branch, then train the predictor with the outcome. Returns 1 for a misprediction. */
int sim_branch(sim *s, uint64_t address, int taken);

/* Kinds of records in the trace of a program, in their upper 3 bits; csrc/plugin/trace_plugin.c writes them. Access:
   9 bits index of the instruction in its block, 3 bits log2(bytes), 1 bit store, 48 bits address. Block: its number.
   Begin of a region: number of the call. End: address of the block that follows. Prefetch: as an access, with the sum
   of the prefetch's address registers at the begin of the block. */
enum sim_record { SIM_RECORD_ACCESS, SIM_RECORD_BLOCK, SIM_RECORD_BEGIN, SIM_RECORD_END, SIM_RECORD_PREFETCH };

enum sim_fed { SIM_FED, SIM_UNKNOWN_BLOCK, SIM_REGION_BEGINS, SIM_REGION_ENDS, SIM_FEED_NO_MEMORY };

/* Give a block of a traced program its number; the rows are copied. Returns 0 without memory. */
int sim_number_block(sim *s, uint32_t number, uint64_t address, const sim_row *rows, uint32_t count);

/* Time the records of a trace from *used on; *used: receives the number of records that are done. value: number of an
   unknown block, which is needed before that record is fed again; or number of the call that begins. Returns an enum
   sim_fed. */
int sim_feed(sim *s, const uint64_t *records, uint64_t count, uint64_t *used, uint64_t *value);
