/* The run: unicorn executes the code, hooks record blocks and accesses, and each block is timed when the next one
   begins. */
#include <stdlib.h>
#include <string.h>

#include "simulate.h"

typedef int (*uc_start)(void *, uint64_t, uint64_t, uint64_t, size_t);
typedef int (*uc_stop)(void *);
typedef int (*uc_hook_add)(void *, size_t *, int, void *, void *, uint64_t, uint64_t, ...);
typedef int (*uc_hook_del)(void *, size_t);
typedef int (*uc_control)(void *, int, ...);
typedef int (*uc_reg_read)(void *, int, void *);

static void stop(sim *s, int end, uint64_t where, uint32_t size) {
    if (s->end == SIM_RETURNED) {
        s->end = end;
        s->where = where;
        s->size = size;
    }
    ((uc_stop)s->emulator.stop)(s->emulator.handle);
}

/* ---- timing of a block that has run ---- */

/* Return the access of a row, merged from all reports of the emulator that belong to it; NULL if it has none. */
static const sim_access *take_access(sim *s, const sim_row *row, uint64_t pc, uint32_t *at, sim_access *whole) {
    const sim_access *a = s->accesses;
    *whole = (sim_access){0, 0, 0};
    if (row->memory & SIM_PREFETCH) {
        if (*at < s->access_count && a[*at].kind & SIM_PREFETCH) *whole = a[(*at)++];
        return whole->kind ? whole : NULL;
    }
    while (*at < s->access_count && a[*at].kind == SIM_UNSIZED &&
           (a[*at].address <= pc || !(row->memory & SIM_UNSIZED)))
        ++*at;
    if (row->memory & SIM_UNSIZED) { /* merge all reports up to the next mark */
        for (; *at < s->access_count && a[*at].kind != SIM_UNSIZED; ++*at) {
            if (whole->kind == 0) whole->address = a[*at].address;
            whole->bytes += a[*at].kind & SIM_LOAD || !(whole->kind & SIM_LOAD) ? a[*at].bytes : 0;
            whole->kind |= a[*at].kind;
        }
        return whole->kind ? whole : NULL;
    }
    if (row->bytes == 0) return NULL;
    uint32_t kind = row->memory & (SIM_LOAD | SIM_STORE);
    whole->kind = kind;
    whole->address = *at < s->access_count ? a[*at].address : 0;
    while (whole->bytes < row->bytes && *at < s->access_count && a[*at].kind == kind) {
        whole->address = a[*at].address < whole->address ? a[*at].address : whole->address;
        whole->bytes += a[(*at)++].bytes;
    }
    return whole;
}

/* Process the block that has run; `next` is the address that follows. In a skipped part only the branch predictor and,
   if the emulator reports accesses, the caches are updated. */
static void finish(sim *s, uint64_t next) {
    sim_block *block = s->pending;
    int timed = s->phase > SAMPLE_SKIP, learns = s->phase > SAMPLE_FAST || s->sampler.unit;
    uint32_t at = 0, count = timed ? block->count : learns ? block->marked_count : 0;
    s->pending = NULL;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t n = timed ? k : block->marked[k];
        uint64_t pc = block->address + 4 * n;
        const sim_row *row = &block->rows[n];
        sim_access whole;
        const sim_access *access = row->memory && s->hooked ? take_access(s, row, pc, &at, &whole) : NULL;
        if (access != NULL && row->bytes != access->bytes && !(row->memory & (SIM_UNSIZED | SIM_PREFETCH))) {
            stop(s, SIM_MISMATCH, pc, access->bytes);
            return;
        }
        process_row(s, row, access, pc, next, n);
    }
    count_block(s, block, s->hooked);
}

/* ---- hooks ---- */

static void on_block(void *uc, uint64_t address, uint32_t size, void *data) {
    sim *s = data;
    (void)uc;
    if (s->pending != NULL && s->timed) {
        sim_block *before = s->pending;
        finish(s, address);
        if (before->after == NULL || before->after->address != address || before->after->bytes != size)
            before->after = block_find(s, address, size);
        s->pending = before->after;
    } else s->pending = block_find(s, address, size);
    s->access_count = 0;
    if (s->end != SIM_RETURNED) return;
    s->phase = s->timed ? sample_phase(s) : SAMPLE_MEASURE;
    if (address >= s->external_first && address < s->external_last) {
        s->pending = NULL;
        stop(s, SIM_EXTERNAL, address, 0);
    } else if (s->executed >= s->limit) {
        s->pending = NULL;
        stop(s, SIM_LIMIT, address, size);
    } else if (s->pending == NULL && s->timed) {
        stop(s, SIM_NEW_BLOCK, address, size);
        return;
    } else if (s->timed && s->hooked != (s->phase != SAMPLE_FAST)) {
        s->pending = NULL;
        stop(s, SIM_SWITCH, address, size);
        return;
    }
    s->executed += size / 4;
}

static void note(sim *s, uint64_t address, uint32_t bytes, uint32_t kind) {
    if (s->access_count == s->access_room) {
        uint32_t room = s->access_room * 2;
        sim_access *larger = realloc(s->accesses, room * sizeof *larger);
        if (larger == NULL) {
            stop(s, SIM_NO_MEMORY, address, 0);
            return;
        }
        s->accesses = larger;
        s->access_room = room;
    }
    s->accesses[s->access_count++] = (sim_access){address, bytes, kind};
}

static void on_access(void *uc, int type, uint64_t address, int size, int64_t value, void *data) {
    sim *s = data;
    (void)uc, (void)value;
    note(s, address, (uint32_t)size, type == s->emulator.mem_write ? SIM_STORE : SIM_LOAD);
}

static void on_watched(void *uc, uint64_t address, uint32_t size, void *data) {
    (void)uc, (void)size;
    note(data, address, 0, SIM_UNSIZED);
}

typedef struct {
    sim *s;
    sim_row row;
} watched_prefetch;

static uint64_t register_value(sim *s, uint32_t number) {
    uint64_t value = 0;
    if (number != SIM_NO_REGISTER)
        ((uc_reg_read)s->emulator.reg_read)(s->emulator.handle, s->emulator.registers[number], &value);
    return value;
}

static void on_prefetch(void *uc, uint64_t address, uint32_t size, void *data) {
    watched_prefetch *watched = data;
    const sim_row *row = &watched->row;
    (void)uc, (void)address, (void)size;
    uint64_t index = register_value(watched->s, row->index);
    index = row->extend == 1 ? (uint32_t)index : row->extend == 2 ? (uint64_t)(int64_t)(int32_t)index : index;
    uint64_t at = register_value(watched->s, row->base) + (index << row->shift) + (uint64_t)row->offset;
    note(watched->s, at, 0, SIM_PREFETCH);
}

static int on_unmapped(void *uc, int type, uint64_t address, int size, int64_t value, void *data) {
    (void)uc, (void)type, (void)value;
    stop(data, SIM_FAULT, address, (uint32_t)size);
    return 0;
}

static void on_exception(void *uc, uint32_t number, void *data) {
    (void)uc;
    stop(data, SIM_EXCEPTION, 0, number);
}

static int add_hook(sim *s, int type, void *function, void *data, uint64_t first, uint64_t last) {
    return ((uc_hook_add)s->emulator.hook_add)(s->emulator.handle, &s->last_hook, type, function, data, first, last) ==
           0;
}

/* Switch the emulator's reports of accesses on or off: it is ten times as fast without. Its code must be
   retranslated. */
static int hook_memory(sim *s, int hooked) {
    const sim_emulator *e = &s->emulator;
    int done = hooked ? add_hook(s, e->hook_read | e->hook_write, (void *)on_access, s, 1, 0)
                      : ((uc_hook_del)e->hook_del)(e->handle, s->memory_hook) == 0;
    if (hooked) s->memory_hook = s->last_hook;
    s->hooked = hooked;
    return done && ((uc_control)e->control)(e->handle, e->flush) == 0;
}

int sim_watch(sim *s, uint64_t address) {
    return add_hook(s, s->emulator.hook_code, (void *)on_watched, s, address, address) &&
           add_hook(s, s->emulator.hook_code, (void *)on_watched, s, address + 4, address + 4);
}

int sim_watch_prefetch(sim *s, uint64_t address, const sim_row *row) {
    watched_prefetch *watched = malloc(sizeof *watched); /* never freed: there are few, and unicorn keeps a pointer */
    if (watched == NULL) return 0;
    *watched = (watched_prefetch){s, *row};
    return add_hook(s, s->emulator.hook_code, (void *)on_prefetch, watched, address, address);
}

/* ---- life ---- */

sim *sim_new(const sim_emulator *emulator, const sim_machine *machine, uint64_t return_address) {
    sim *s = calloc(1, sizeof *s);
    if (s == NULL) return NULL;
    s->emulator = *emulator;
    s->timed = machine != NULL;
    s->phase = SAMPLE_MEASURE;
    s->return_address = return_address;
    s->block_slots = 1024;
    s->blocks = calloc(s->block_slots, sizeof *s->blocks);
    s->access_room = 4096;
    s->accesses = malloc(s->access_room * sizeof *s->accesses);
    int made = s->blocks != NULL && s->accesses != NULL;
    if (machine != NULL) {
        s->machine = *machine;
        if (s->machine.store_queue > SLOTS && machine->in_order) s->machine.store_queue = SLOTS;
        predictor_new(s);
        made = made && caches_new(s) && (machine->in_order || out_of_order_new(s));
    }
    if (made && emulator->handle != NULL) {
        made = add_hook(s, emulator->hook_block, (void *)on_block, s, 1, 0) &&
               add_hook(s, emulator->hook_unmapped, (void *)on_unmapped, s, 1, 0) &&
               add_hook(s, emulator->hook_exception, (void *)on_exception, s, 1, 0) &&
               (machine == NULL || hook_memory(s, 1));
    }
    if (!made) {
        sim_delete(s);
        return NULL;
    }
    return s;
}

void sim_delete(sim *s) {
    for (uint32_t n = 0; s->blocks != NULL && n < s->block_slots; n++) block_delete(s->blocks[n]);
    free(s->blocks);
    traced_delete(s);
    free(s->accesses);
    free(s->latencies);
    free(s->patterns);
    caches_delete(s);
    out_of_order_delete(s);
    free(s);
}

int sim_tables(sim *s, const int16_t *latencies, uint32_t classes, const sim_pattern *patterns, uint32_t count) {
    size_t bytes = (size_t)classes * classes * SIM_ROLES * sizeof *latencies;
    int16_t *table = malloc(bytes ? bytes : 1);
    sim_pattern *copy = malloc((count ? count : 1) * sizeof *copy);
    if (table == NULL || copy == NULL) {
        free(table);
        free(copy);
        return 0;
    }
    free(s->latencies);
    free(s->patterns);
    s->latencies = memcpy(table, latencies, bytes);
    s->patterns = memcpy(copy, patterns, count * sizeof *copy);
    s->classes = classes;
    return 1;
}

void sim_externals(sim *s, uint64_t first, uint64_t last) {
    s->external_first = first;
    s->external_last = last;
}

int sim_run(sim *s, uint64_t address, uint64_t limit, uint64_t *where, uint32_t *size) {
    s->end = SIM_RETURNED;
    s->limit = limit;
    s->where = s->size = 0;
    int fault;
    for (;;) {
        fault = ((uc_start)s->emulator.start)(s->emulator.handle, address, s->return_address, 0, 0);
        if (s->end != SIM_SWITCH) break;
        s->end = SIM_RETURNED;
        address = s->where;
        if (!hook_memory(s, !s->hooked)) {
            s->end = SIM_NO_MEMORY;
            break;
        }
    }
    if (s->end == SIM_RETURNED && fault) stop(s, SIM_EXCEPTION, 0, 0);
    if (s->end == SIM_RETURNED && s->pending != NULL && s->timed) finish(s, s->return_address);
    s->pending = NULL;
    s->access_count = 0;
    *where = s->where;
    *size = s->size;
    return s->end;
}

void sim_callee(sim *s, uint64_t from, uint64_t to, uint64_t bytes) {
    uint64_t step = s->machine.line_bytes, cycle = sample_clock(s) + s->machine.callee_cycles;
    for (uint64_t at = 0; at < bytes; at += step) {
        uint32_t part = (uint32_t)(bytes - at < step ? bytes - at : step);
        uint64_t late = 0;
        if (from) late = caches_access(s, s->return_address, from + at, part, SIM_LOAD, cycle);
        if (to) caches_access(s, s->return_address + 4, to + at, part, SIM_STORE, cycle);
        cycle += (part + 15) / 16 * (from && to ? 2 : 1) + late; /* one load or store of 16 bytes per cycle */
    }
    sample_callee(s, cycle);
}

void sim_begin(sim *s) {
    memset(&s->counts, 0, sizeof s->counts);
    s->executed = 0;
    s->start_cycle = now(s);
    s->fetch_cause = SIM_BRANCH;
    s->fetch_ready = s->start_cycle; /* no instruction of this call issues together with earlier ones */
    if (s->machine.in_order && s->in.here) {
        s->in.here = s->machine.width;
    }
}

void sim_begin_next(sim *s) {
    memset(&s->counts, 0, sizeof s->counts);
    /* The caller sets the arguments, which wait for nothing of the last call. */
    memset(s->writers, 0, sizeof s->writers);
    s->executed = 0;
    s->start_cycle = now(s);
}

uint64_t sim_now(const sim *s) { return now(s); }

void sim_end_counts(sim *s, sim_counts *counts) {
    s->counts.cycles = now(s) - s->start_cycle;
    *counts = s->counts;
}
