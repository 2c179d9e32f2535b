/* Internal declarations of the simulator. */
#ifndef MAVCG_SIMULATE_H
#define MAVCG_SIMULATE_H

#include <stddef.h>
#include <stdint.h>

#include "simulate_api.h"

/* The last writer of a register. known: false before the first write. late: extra cycles beyond the latency of its
   class, after a miss. accumulation: its number among the ops that accumulate; 0 if it does not. */
typedef struct {
    uint64_t issue, late, accumulation;
    uint16_t op_class, latency, known;
} sim_writer;

typedef struct {
    uint64_t line, used, ready;
    uint8_t valid, dirty;
} sim_line;

typedef struct {
    sim_line *lines;
    uint32_t sets, ways, latency;
    double line_cycles, busy;
} sim_cache;

enum { STREAMS = 64, SLOTS = 64, RETURN_STACK = 16, TARGETS = 512, PATTERN_ROWS = 1 << 14 };

typedef struct {
    uint64_t pc, last;
    int64_t stride;
    uint32_t seen, lines; /* lines: number of lines since the stream was recognised */
} sim_stream;

/* A line that stores are filling. bytes: mask of the bytes written so far. ready: when the line's fill ends. streamed:
   the line is written without a fill. */
typedef struct {
    uint64_t line, bytes, ready;
    uint8_t open, streamed;
} sim_write;

enum { WRITES = 4, PREFETCHES = 512 };

typedef struct {
    sim_cache levels[SIM_LEVELS];
    uint32_t level_count, line_shift, memory_latency, slots, prefetch_lines, prefetch_pages, stream_lines, far_lines;
    uint32_t full_lines, write_at; /* consecutive lines filled by stores alone */
    sim_write writes[WRITES];
    double memory_line_cycles, memory_busy;
    uint64_t clock;
    uint64_t slot[SLOTS], prefetch_slot[SLOTS]; /* when the line fill in each slot ends */
    sim_stream streams[STREAMS];
} sim_caches;

typedef struct {
    uint32_t history, history_mask;
    uint8_t counters[PATTERN_ROWS];
    uint64_t returns[RETURN_STACK], target_of[TARGETS], target[TARGETS];
    uint32_t return_top;
} sim_predictor;

enum { QUEUED = 8 }; /* MOST_QUEUED of mavcg/profiles/timing_rows.py */

typedef struct {
    uint64_t cycle, blocked_until, narrow_until; /* narrow_until: the cycles before it have a slot less */
    uint32_t here, these, those; /* ops issued in this cycle; sides of no-dual-issue rules that they are on */
    uint64_t unit_free[SIM_UNITS];
    unsigned __int128 spaced[SIM_RULES]; /* bit n: an op of the rule's first side issued n cycles ago */
    uint32_t spaced_rules;               /* rules with such an op */
    uint32_t blocked_cause;
    uint64_t vector_cycle, queue[QUEUED]; /* issue cycle of the last vector op, and a ring of those of the last ops */
    uint32_t queue_at;
    uint64_t accumulations; /* number of ops so far that accumulate */
} sim_in_order;

enum { HORIZON = 1 << 14, WORDS = HORIZON / 64, STORES = 256, DEMAND_WINDOW = 512 };

typedef struct {
    uint64_t dispatch, retire;
    uint32_t dispatched, retired; /* number of micro-operations in that cycle */
    uint64_t cleared;             /* cycles before this one have been removed from the reservation tables */
    uint64_t *busy;               /* [unit][WORDS]: one bit per cycle */
    float demand[SIM_UNITS];
    uint64_t *queues; /* [unit][issue_queue]: issue cycle of each entry's operation */
    uint32_t bookings;
    uint64_t *window, *loads, *stores; /* ring buffers of retirement cycles */
    uint64_t window_at, load_at, store_at, last_gone;
    uint64_t stored[STORES], stored_ready[STORES], stored_gone[STORES]; /* by 8-byte word: data of recent stores */
} sim_out_of_order;

enum sim_phase { SAMPLE_FAST, SAMPLE_SKIP, SAMPLE_WARM, SAMPLE_MEASURE };

/* State of a sampled run (sample.c). position: instructions since the last report. skipped_cycle: the clock in skipped
   parts, where each instruction takes the average time of the last unit. */
typedef struct {
    uint64_t period, position, next, unit_at, unit_end, unit_from, cycle_from, callee_from, random;
    uint32_t unit, warm, phase;
    uint64_t functional, length;
    double skipped_cycle, cycles_per_instr;
    uint64_t stalls_from[SIM_CAUSES];
    sim_sample found;
} sim_sampler;

typedef struct sim_block {
    uint64_t address;
    uint32_t bytes, count, marked_count;
    sim_row *rows;
    uint32_t *marked;        /* indices of the rows that access memory or branch */
    struct sim_block *other; /* a block at the same address with another size */
    struct sim_block *after; /* the block that followed last time */
} sim_block;

struct sim {
    sim_emulator emulator;
    sim_machine machine;
    int timed;
    uint64_t return_address, external_first, external_last;
    int16_t *latencies;
    uint32_t classes;
    sim_pattern *patterns;
    sim_block **blocks; /* hash table by address */
    uint32_t block_slots, block_count;
    sim_access *accesses;
    uint32_t access_count, access_room;
    sim_block **numbered; /* blocks of a traced program, by number */
    uint64_t *records;    /* of the accesses of its running block */
    uint64_t prefetch_records[PREFETCHES];
    uint32_t numbered_room, record_count, record_room, prefetch_count;
    sim_block *pending; /* the running block, which is timed when the next one begins */
    size_t last_hook, memory_hook;
    uint32_t phase; /* phase of the running block */
    int hooked;     /* the emulator reports memory accesses */
    uint64_t limit, executed, where, start_cycle;
    uint32_t size;
    int end;
    uint64_t fetch_ready; /* when the instructions after a mispredicted branch or a callee arrive */
    uint32_t fetch_cause;
    uint64_t store_drained[SLOTS], store_at, store_last;
    sim_writer writers[SIM_REGISTERS];
    sim_caches caches;
    sim_predictor predictor;
    sim_in_order in;
    sim_out_of_order out;
    sim_sampler sampler;
    sim_counts counts;
};

int caches_new(sim *s);
void caches_delete(sim *s);
/* Return the cycles by which an access in this cycle ends later than a hit in the first level. */
uint64_t caches_access(sim *s, uint64_t pc, uint64_t address, uint32_t bytes, uint32_t kind, uint64_t cycle);
/* Limit the bookings of levels and memory at this cycle to as many line fills as can be in flight. */
void caches_settle(sim *s, uint64_t cycle);

void predictor_new(sim *s);
/* Return 1 if the jump from `pc` to `target` was mispredicted. next: the address after the jump. */
int predictor_jump(sim *s, uint32_t flow, uint64_t pc, uint64_t next, uint64_t target);

/* Time one instruction. access: its memory access or NULL. Returns the cycle in which it issues. */
uint64_t in_order_issue(sim *s, const sim_row *row, const sim_access *access, uint64_t pc);

void in_order_pass(sim *s, uint64_t cycle);
void out_of_order_pass(sim *s, uint64_t cycle);

/* Make a block of these rows, which are copied; NULL without memory. */
sim_block *block_new(uint64_t address, uint32_t bytes, const sim_row *rows, uint32_t count);
void block_delete(sim_block *block);
/* Return the block of these bytes; NULL if it was not added. */
sim_block *block_find(const sim *s, uint64_t address, uint32_t bytes);
void traced_delete(sim *s);

int out_of_order_new(sim *s);
void out_of_order_delete(sim *s);
uint64_t out_of_order_issue(sim *s, const sim_row *row, const sim_access *access, uint64_t pc);

/* Return the phase of the instructions from here on. */
uint32_t sample_phase(sim *s);
/* Return the cycle of the n-th instruction of a skipped block. sample_skip then advances the clock past `count`
   instructions. */
uint64_t sample_cycle(const sim *s, uint32_t n);
void sample_skip(sim *s, uint32_t count);
/* Return the current cycle, also in skipped parts. sample_callee ends a callee at a later cycle. */
uint64_t sample_clock(const sim *s);
void sample_callee(sim *s, uint64_t cycle);

/* Time an instruction, or process it in caches and predictor alone, as the phase says. access: its memory access or
   NULL. next: the address after its block. n: its index in the block. */
void process_row(sim *s, const sim_row *row, const sim_access *access, uint64_t pc, uint64_t next, uint32_t n);
/* Count a block whose instructions are processed. seen: the caches processed its accesses. */
void count_block(sim *s, const sim_block *block, int seen);

/* Return the extra cycles for which an unaligned access keeps its units: if it crosses 16 bytes, or a cache line. */
uint32_t unaligned_cycles(sim *s, const sim_pattern *pattern, const sim_access *access);

/* Return the cycle that the pipeline has reached. */
static inline uint64_t now(const sim *s) {
    return s->machine.in_order ? s->in.cycle + (s->in.here > 0) : s->out.retire;
}

static inline int16_t latency_of(const sim *s, const sim_writer *by, const sim_row *to, uint32_t role) {
    return s->latencies[((size_t)by->op_class * s->classes + to->op_class) * SIM_ROLES + role];
}

#endif
