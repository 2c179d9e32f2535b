/* Set-associative caches with least-recently-used replacement, write-back and write-allocate; a stride prefetcher
   indexed by instruction address (Baer and Chen 1991); line fills that occupy each level and the memory one after
   another. */
#include <stdlib.h>
#include <string.h>

#include "simulate.h"

enum { PAGE_SHIFT = 12, CONFIDENT = 8 };

int caches_new(sim *s) {
    const sim_machine *m = &s->machine;
    sim_caches *c = &s->caches;
    memset(c, 0, sizeof *c);
    c->level_count = m->level_count;
    c->line_shift = (uint32_t)__builtin_ctz(m->line_bytes);
    c->memory_latency = m->memory_latency;
    c->memory_line_cycles = m->memory_line_cycles;
    c->prefetch_lines = m->prefetch_lines;
    c->prefetch_pages = m->prefetch_pages;
    c->stream_lines = m->stream_lines;
    c->far_lines = m->far_lines;
    c->slots = m->miss_slots < 1 ? 1 : m->miss_slots > SLOTS ? SLOTS : m->miss_slots;
    for (uint32_t k = 0; k < m->level_count; k++) {
        const sim_level *from = &m->levels[k];
        sim_cache *level = &c->levels[k];
        uint64_t sets = from->bytes / m->line_bytes / from->ways;
        level->sets = sets < 1 ? 1 : (uint32_t)sets;
        level->ways = from->ways;
        level->latency = from->latency;
        level->line_cycles = from->line_cycles;
        level->lines = calloc((size_t)level->sets * level->ways, sizeof *level->lines);
        if (level->lines == NULL) return 0;
    }
    return 1;
}

void caches_delete(sim *s) {
    for (uint32_t k = 0; k < SIM_LEVELS; k++) free(s->caches.levels[k].lines);
}

static sim_line *set_of(const sim_cache *level, uint64_t line) {
    return level->lines + (size_t)(line % level->sets) * level->ways;
}

static sim_line *find(const sim_cache *level, uint64_t line) {
    sim_line *set = set_of(level, line);
    for (uint32_t way = 0; way < level->ways; way++)
        if (set[way].valid && set[way].line == line) return &set[way];
    return NULL;
}

static void write_back(sim *s, uint32_t k, uint64_t line, uint64_t cycle);

static sim_line *insert(sim *s, uint32_t k, uint64_t line, uint64_t cycle) {
    sim_cache *level = &s->caches.levels[k];
    sim_line *set = set_of(level, line), *victim = set;
    for (uint32_t way = 0; way < level->ways; way++) {
        if (!set[way].valid) {
            victim = &set[way];
            break;
        }
        if (set[way].used < victim->used) victim = &set[way];
    }
    if (victim->valid && victim->dirty) write_back(s, k + 1, victim->line, cycle);
    *victim = (sim_line){.line = line, .used = ++s->caches.clock, .ready = cycle, .valid = 1};
    return victim;
}

/* Write a modified line that leaves level k - 1 to level k, or to memory if there is no level k; k counts from 0. */
static void write_back(sim *s, uint32_t k, uint64_t line, uint64_t cycle) {
    sim_caches *c = &s->caches;
    if (k == c->level_count) {
        c->memory_busy = (c->memory_busy > (double)cycle ? c->memory_busy : (double)cycle) + c->memory_line_cycles;
        s->counts.written_lines++;
        return;
    }
    sim_line *there = find(&c->levels[k], line);
    if (there == NULL) there = insert(s, k, line, cycle);
    there->dirty = 1;
}

static double later(double a, double b) { return a > b ? a : b; }

/* Return the cycle in which a line arrives that is requested from level k on in this cycle. counted: count hits and
   misses. */
static uint64_t fetch(sim *s, uint32_t k, uint64_t line, uint64_t cycle, int counted) {
    sim_caches *c = &s->caches;
    if (k == c->level_count) {
        double start = later((double)cycle, c->memory_busy);
        c->memory_busy = start + c->memory_line_cycles;
        s->counts.memory_lines++;
        return (uint64_t)start + c->memory_latency;
    }
    sim_cache *level = &c->levels[k];
    sim_line *there = find(level, line);
    if (counted) *(there != NULL ? &s->counts.hits[k] : &s->counts.misses[k]) += 1;
    if (there == NULL) {
        uint64_t ready = fetch(s, k + 1, line, cycle, counted);
        insert(s, k, line, cycle)->ready = ready;
        return ready;
    }
    there->used = ++c->clock;
    double start = later((double)cycle, level->busy);
    level->busy = start + level->line_cycles;
    uint64_t ready = (uint64_t)start + level->latency;
    return ready > there->ready ? ready : there->ready;
}

/* Bring a line to level 1. waits: wait for a free fill slot, as prefetch instructions do; otherwise drop the prefetch
   if no slot is free, as the hardware prefetcher does. */
static void prefetch(sim *s, uint64_t line, uint64_t cycle, int waits) {
    sim_caches *c = &s->caches;
    uint32_t slot = 0;
    if (find(&c->levels[0], line) != NULL) return;
    for (uint32_t n = 1; n < c->slots; n++)
        if (c->prefetch_slot[n] < c->prefetch_slot[slot]) slot = n;
    uint64_t start = c->prefetch_slot[slot] > cycle ? c->prefetch_slot[slot] : cycle;
    if (start > cycle && !waits) return;
    uint64_t ready = fetch(s, 1, line, start, 0);
    insert(s, 0, line, cycle)->ready = ready;
    c->prefetch_slot[slot] = ready;
    s->counts.prefetched_lines++;
}

/* Bring a line of a long stream to the last level only, which has room for many lines. */
static void prefetch_far(sim *s, uint64_t line, uint64_t cycle) {
    sim_caches *c = &s->caches;
    uint32_t last = c->level_count - 1;
    if (last == 0) return;
    for (uint32_t k = 0; k <= last; k++)
        if (find(&c->levels[k], line) != NULL) return;
    uint64_t ready = fetch(s, c->level_count, line, cycle, 0);
    insert(s, last, line, cycle)->ready = ready;
    s->counts.prefetched_lines++;
}

/* Learn the stride of the load at `pc`; once the same stride was seen twice, prefetch the next lines at that stride. */
static void stride_prefetch(sim *s, uint64_t pc, uint64_t address, uint64_t cycle) {
    sim_caches *c = &s->caches;
    sim_stream *stream = &c->streams[(pc >> 2) % STREAMS];
    if (stream->pc != pc) {
        *stream = (sim_stream){.pc = pc, .last = address};
        return;
    }
    int64_t stride = (int64_t)(address - stream->last);
    int moved = stream->last >> c->line_shift != address >> c->line_shift;
    stream->last = address;
    if (stride == 0) return;
    if (stride != stream->stride) {
        stream->stride = stride;
        stream->seen = stream->lines = 0;
        return;
    }
    if (stream->seen < 2 && ++stream->seen < 2) return;
    if (!moved) return;
    stream->lines++;
    int64_t line_bytes = (int64_t)1 << c->line_shift;
    int64_t step = stride < 0 ? -stride : stride;
    step = step < line_bytes ? line_bytes : step;
    step = stride < 0 ? -step : step;
    for (uint32_t n = 1; n <= c->prefetch_lines; n++) {
        uint64_t target = address + (uint64_t)(step * (int64_t)n);
        if (!c->prefetch_pages && target >> PAGE_SHIFT != address >> PAGE_SHIFT) return;
        prefetch(s, target >> c->line_shift, cycle, 0);
    }
    /* The prefetch distance grows as the stream goes on: two more lines for each line used, up to far_lines. */
    for (uint32_t n = 0; c->far_lines && stream->lines > CONFIDENT && n < 2; n++) {
        uint32_t ahead = c->prefetch_lines + 2 * (stream->lines - CONFIDENT) - n;
        ahead = ahead < c->far_lines ? ahead : c->far_lines - n;
        uint64_t target = address + (uint64_t)(step * (int64_t)ahead);
        if (!c->prefetch_pages && target >> PAGE_SHIFT != address >> PAGE_SHIFT) return;
        prefetch_far(s, target >> c->line_shift, cycle);
    }
}

/* ---- write streaming: a sequence of stores that fill whole lines bypasses level 1 ---- */

static sim_write *open_write(sim_caches *c, uint64_t line) {
    for (uint32_t n = 0; n < WRITES; n++)
        if (c->writes[n].open && c->writes[n].line == line) return &c->writes[n];
    return NULL;
}

/* Stop waiting for the rest of a line. If the line was streamed, read its missing bytes after all, and end the
   streaming. */
static void close_write(sim *s, sim_write *w, uint64_t cycle) {
    if (w->open && w->streamed) {
        uint64_t ready = fetch(s, 1, w->line, cycle, 1);
        sim_line *there = insert(s, 0, w->line, cycle);
        there->ready = ready;
        there->dirty = 1;
    }
    if (w->open) s->caches.full_lines = 0;
    w->open = 0;
}

/* Write a whole line past level 1. Returns the cycles that its stores wait: at most `slots` lines may wait for the next
   level and for memory, to which modified lines leave. */
static uint64_t write_past(sim *s, uint64_t line, uint64_t cycle) {
    sim_caches *c = &s->caches;
    write_back(s, 1, line, cycle);
    double until = c->memory_busy - c->slots * c->memory_line_cycles;
    if (c->level_count > 1) {
        sim_cache *next = &c->levels[1];
        next->busy = later((double)cycle, next->busy) + next->line_cycles;
        until = later(until, next->busy - c->slots * next->line_cycles);
    }
    return until > (double)cycle ? (uint64_t)(until - (double)cycle) : 0;
}

/* Process a store to these bytes of a line. there: the line is in level 1. late: receives the cycles that the store
   waits. Returns the entry of the line being filled, or NULL for a hit on a line that is not being filled. */
static sim_write *stream_store(sim *s, uint64_t line, uint64_t bytes, uint64_t cycle, int there, uint64_t *late) {
    sim_caches *c = &s->caches;
    sim_write *w = open_write(c, line);
    if (w == NULL) {
        if (there) return NULL;
        w = &c->writes[c->write_at++ % WRITES];
        close_write(s, w, cycle);
        *w = (sim_write){.line = line, .ready = ~0ull, .open = 1, .streamed = c->full_lines >= c->stream_lines};
    }
    w->bytes |= bytes;
    if (w->bytes == ~0ull >> (64 - (1u << c->line_shift))) {
        w->open = 0;
        c->full_lines = w->streamed || cycle < w->ready ? c->full_lines + 1 : 0;
        if (w->streamed) *late = write_past(s, line, cycle);
    }
    return w;
}

static uint64_t access_line(sim *s, uint64_t line, uint64_t bytes, uint32_t kind, uint64_t cycle) {
    sim_caches *c = &s->caches;
    sim_line *there = find(&c->levels[0], line);
    uint64_t ready = cycle, wait = 0;
    sim_write *w = NULL;
    if (c->stream_lines) {
        if (kind & SIM_STORE) w = stream_store(s, line, bytes, cycle, there != NULL, &wait);
        else if ((w = open_write(c, line)) != NULL && w->streamed) {
            close_write(s, w, cycle);
            there = find(&c->levels[0], line);
        }
        if (kind & SIM_STORE && w != NULL && w->streamed) { /* only the line's first store is a miss */
            *(w->bytes == bytes ? &s->counts.misses[0] : &s->counts.hits[0]) += 1;
            s->counts.streamed++;
            return wait;
        }
    }
    if (there != NULL) {
        s->counts.hits[0]++;
        there->used = ++c->clock;
        ready = there->ready > cycle ? there->ready : cycle;
    } else {
        uint32_t slot = 0;
        for (uint32_t n = 1; n < c->slots; n++)
            if (c->slot[n] < c->slot[slot]) slot = n;
        uint64_t start = c->slot[slot] > cycle ? c->slot[slot] : cycle;
        s->counts.misses[0]++;
        ready = fetch(s, 1, line, start, 1);
        there = insert(s, 0, line, start);
        there->ready = ready;
        c->slot[slot] = ready;
        if (w != NULL) w->ready = ready;
    }
    if (kind & SIM_STORE) there->dirty = 1;
    return ready - cycle;
}

/* Return a mask with one bit for each byte of a line that an access from `first` to `last` touches. */
static uint64_t bytes_of(const sim_caches *c, uint64_t line, uint64_t first, uint64_t last) {
    uint64_t begin = line << c->line_shift, end = begin + (1u << c->line_shift) - 1;
    uint64_t from = (first > begin ? first : begin) - begin, to = (last < end ? last : end) - begin;
    return ~0ull >> (63 - (to - from)) << from;
}

uint64_t caches_access(sim *s, uint64_t pc, uint64_t address, uint32_t bytes, uint32_t kind, uint64_t cycle) {
    sim_caches *c = &s->caches;
    if (c->level_count == 0) return 0;
    if (kind & SIM_PREFETCH) {
        s->counts.prefetches++;
        prefetch(s, address >> c->line_shift, cycle, 1);
        return 0;
    }
    uint64_t late = 0;
    uint64_t last = address + (bytes ? bytes : 1) - 1;
    for (uint64_t line = address >> c->line_shift;; line++) {
        uint64_t of_line = access_line(s, line, bytes_of(c, line, address, last), kind, cycle);
        late = of_line > late ? of_line : late;
        if (line == last >> c->line_shift) break;
    }
    if (kind & SIM_LOAD && c->prefetch_lines) stride_prefetch(s, pc, address, cycle);
    return late;
}

void caches_settle(sim *s, uint64_t cycle) {
    sim_caches *c = &s->caches;
    double most = (double)cycle + c->memory_latency + c->slots * c->memory_line_cycles;
    if (c->memory_busy > most) c->memory_busy = most;
    for (uint32_t k = 0; k < c->level_count; k++) {
        sim_cache *level = &c->levels[k];
        if (level->busy > most) level->busy = most;
        for (size_t n = 0; n < (size_t)level->sets * level->ways; n++)
            if (level->lines[n].ready > most) level->lines[n].ready = (uint64_t)most;
    }
    for (uint32_t n = 0; n < c->slots; n++) {
        if (c->slot[n] > most) c->slot[n] = (uint64_t)most;
        if (c->prefetch_slot[n] > most) c->prefetch_slot[n] = (uint64_t)most;
    }
}

void sim_trace(sim *s, const sim_access *accesses, const uint64_t *cycles, uint32_t count, uint64_t *late) {
    for (uint32_t n = 0; n < count; n++) {
        const sim_access *a = &accesses[n];
        late[n] = caches_access(s, 4 * n, a->address, a->bytes, a->kind, cycles[n]);
    }
}
