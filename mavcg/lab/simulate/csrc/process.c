/* A traced program: blocks and accesses come as records from another process (csrc/plugin/trace_plugin.c). A block is
   timed when the next one begins, as in trace.c; an access names its instruction. */
#include <stdlib.h>
#include <string.h>

#include "simulate.h"

enum { KIND_SHIFT = 61, INDEX_SHIFT = 52, SIZE_SHIFT = 49, STORE_SHIFT = 48, INDEX_MASK = 511, SIZE_MASK = 7 };

static const uint64_t ADDRESS_MASK = (1ull << STORE_SHIFT) - 1, VALUE_MASK = (1ull << KIND_SHIFT) - 1;

static uint32_t index_of(uint64_t record) { return (uint32_t)(record >> INDEX_SHIFT) & INDEX_MASK; }

/* Merge all accesses of the instruction with this index; `at` moves past them. Returns NULL if it has none. */
static const sim_access *merge(const sim *s, uint32_t n, uint32_t *at, sim_access *whole) {
    uint32_t loaded = 0, stored = 0;
    uint64_t first = ~0ull;
    while (*at < s->record_count && index_of(s->records[*at]) < n) ++*at;
    for (; *at < s->record_count && index_of(s->records[*at]) == n; ++*at) {
        uint64_t record = s->records[*at], address = record & ADDRESS_MASK;
        uint32_t bytes = 1u << (record >> SIZE_SHIFT & SIZE_MASK);
        *(record >> STORE_SHIFT & 1 ? &stored : &loaded) += bytes;
        first = address < first ? address : first;
    }
    if (loaded + stored == 0) return NULL;
    *whole = (sim_access){first, loaded > stored ? loaded : stored, (loaded ? SIM_LOAD : 0) | (stored ? SIM_STORE : 0)};
    return whole;
}

/* Return the address in the first record of the instruction with this index, and whether there is one. */
static int recorded(const uint64_t *records, uint32_t count, uint32_t n, uint64_t *address) {
    for (uint32_t at = 0; at < count; at++)
        if (index_of(records[at]) == n) {
            *address = records[at] & ADDRESS_MASK;
            return 1;
        }
    return 0;
}

/* Return the access of the n-th instruction, a prefetch: as the plugin says, else beside another access; or NULL. */
static const sim_access *prefetched(const sim *s, const sim_row *row, uint32_t n, sim_access *whole) {
    uint64_t address = 0;
    if (!recorded(s->prefetch_records, s->prefetch_count, n, &address)) {
        if (!row->beside || !recorded(s->records, s->record_count, row->beside - 1u, &address)) return NULL;
        address += (uint64_t)row->beside_offset;
    }
    *whole = (sim_access){address, 0, SIM_PREFETCH};
    return whole;
}

static void finish(sim *s, uint64_t next) {
    const sim_block *block = s->pending;
    int timed = s->phase > SAMPLE_SKIP, seen = s->phase > SAMPLE_FAST;
    uint32_t at = 0, count = timed ? block->count : block->marked_count;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t n = timed ? k : block->marked[k];
        const sim_row *row = &block->rows[n];
        sim_access whole;
        const sim_access *access = NULL;
        if (row->memory && seen) {
            access = row->memory & SIM_PREFETCH ? prefetched(s, row, n, &whole) : merge(s, n, &at, &whole);
            s->counts.unknown_addresses += access == NULL && !(row->memory & SIM_UNSIZED);
        }
        s->counts.unmodelled += timed && row->unmodelled;
        process_row(s, row, access, block->address + 4 * n, next, n);
    }
    count_block(s, block, seen);
    s->record_count = s->prefetch_count = 0;
    s->pending = NULL;
}

int sim_number_block(sim *s, uint32_t number, uint64_t address, const sim_row *rows, uint32_t count) {
    if (number >= s->numbered_room) {
        uint32_t room = number < 512 ? 1024 : number * 2;
        sim_block **larger = realloc(s->numbered, room * sizeof(sim_block *));
        if (larger == NULL) return 0;
        memset(larger + s->numbered_room, 0, (room - s->numbered_room) * sizeof(sim_block *));
        s->numbered = larger;
        s->numbered_room = room;
    }
    block_delete(s->numbered[number]);
    s->numbered[number] = block_new(address, 4 * count, rows, count);
    return s->numbered[number] != NULL;
}

void traced_delete(sim *s) {
    for (uint32_t n = 0; n < s->numbered_room; n++) block_delete(s->numbered[n]);
    free(s->numbered);
    free(s->records);
}

static int keep_access(sim *s, uint64_t record) {
    if (s->pending == NULL) return 1;
    if (s->record_count == s->record_room) {
        uint32_t room = s->record_room ? s->record_room * 2 : 1024;
        uint64_t *larger = realloc(s->records, room * sizeof *larger);
        if (larger == NULL) return 0;
        s->records = larger;
        s->record_room = room;
    }
    s->records[s->record_count++] = record;
    return 1;
}

static void end_region(sim *s, uint64_t next) {
    if (s->pending == NULL) return;
    uint64_t before = s->return_address;
    s->return_address = next; /* whose call was before the region: not a misprediction */
    finish(s, next);
    s->return_address = before;
}

int sim_feed(sim *s, const uint64_t *records, uint64_t count, uint64_t *used, uint64_t *value) {
    for (uint64_t n = *used; n < count; n++) {
        uint64_t record = records[n];
        *value = record & VALUE_MASK;
        *used = n + 1;
        switch (record >> KIND_SHIFT) {
        case SIM_RECORD_ACCESS:
            if (!keep_access(s, record)) return SIM_FEED_NO_MEMORY;
            break;
        case SIM_RECORD_BLOCK: {
            sim_block *block = *value < s->numbered_room ? s->numbered[*value] : NULL;
            if (block == NULL) {
                *used = n;
                return SIM_UNKNOWN_BLOCK;
            }
            if (s->pending != NULL) finish(s, block->address);
            s->record_count = s->prefetch_count = 0;
            s->pending = block;
            s->phase = sample_phase(s);
            break;
        }
        case SIM_RECORD_PREFETCH:
            if (s->pending != NULL && s->prefetch_count < PREFETCHES) s->prefetch_records[s->prefetch_count++] = record;
            break;
        case SIM_RECORD_BEGIN: return SIM_REGION_BEGINS;
        default: end_region(s, *value); return SIM_REGION_ENDS;
        }
    }
    return SIM_FED;
}
