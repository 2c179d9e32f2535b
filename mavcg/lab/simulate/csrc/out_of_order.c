/* An out-of-order core: in-order dispatch into a window, issue when operands and a unit are ready, in-order retirement.

   Each instruction is processed once, in program order, and books the first free cycle of a unit. An older instruction
   that becomes ready late thus takes the cycles that younger ones have left free, which approximates a core that issues
   the oldest ready operation first. */
#include <stdlib.h>
#include <string.h>

#include "simulate.h"

enum { FORWARD_CYCLES = 4 }; /* from a store's data to a load of the same word */

int out_of_order_new(sim *s) {
    const sim_machine *m = &s->machine;
    sim_out_of_order *o = &s->out;
    o->busy = calloc((size_t)SIM_UNITS * WORDS, sizeof *o->busy);
    o->queues = calloc((size_t)SIM_UNITS * (m->issue_queue + 1), sizeof *o->queues);
    o->window = calloc(m->reorder_buffer, sizeof *o->window);
    o->loads = calloc(m->load_queue, sizeof *o->loads);
    o->stores = calloc(m->store_queue, sizeof *o->stores);
    return o->busy != NULL && o->queues != NULL && o->window != NULL && o->loads != NULL && o->stores != NULL;
}

void out_of_order_delete(sim *s) {
    free(s->out.busy);
    free(s->out.queues);
    free(s->out.window);
    free(s->out.loads);
    free(s->out.stores);
}

/* Free the reservation bits of the cycles before this one, for the reuse of the bits by later cycles. */
static void clear_until(sim_out_of_order *o, uint32_t units, uint64_t cycle) {
    uint64_t first = o->cleared / 64, last = cycle / 64;
    if (last - first >= WORDS) memset(o->busy, 0, (size_t)SIM_UNITS * WORDS * sizeof *o->busy);
    else
        for (uint64_t word = first; word < last; word++)
            for (uint32_t unit = 0; unit < units; unit++) o->busy[unit * WORDS + word % WORDS] = 0;
    o->cleared = cycle;
}

static int is_free(const sim_out_of_order *o, uint32_t unit, uint64_t cycle, uint32_t cycles) {
    for (uint64_t at = cycle; at < cycle + cycles; at++)
        if (o->busy[unit * WORDS + at / 64 % WORDS] >> at % 64 & 1) return 0;
    return 1;
}

/* Return the first cycle from `ready` on in which one of the units is idle; `end` if there is none before it. */
static uint64_t first_idle(const sim_out_of_order *o, uint64_t units, uint64_t ready, uint64_t end) {
    uint64_t ahead = ~0ull << ready % 64;
    for (uint64_t word = ready / 64; word * 64 < end; word++) {
        uint64_t all_busy = ~0ull;
        for (uint64_t left = units; left; left &= left - 1)
            all_busy &= o->busy[(uint32_t)__builtin_ctzll(left) * WORDS + word % WORDS];
        uint64_t idle = ~all_busy & ahead;
        if (idle) return word * 64 + (uint64_t)__builtin_ctzll(idle);
        ahead = ~0ull;
    }
    return end;
}

/* Track the recent demand on each unit, so that an operation with a choice of units leaves those that others need. */
static void add_demand(sim_out_of_order *o, const sim_use *use) {
    float share = (float)use->cycles / (float)__builtin_popcountll(use->units);
    for (uint64_t units = use->units; units; units &= units - 1) o->demand[__builtin_ctzll(units)] += share;
    if (++o->bookings % DEMAND_WINDOW == 0)
        for (uint32_t unit = 0; unit < SIM_UNITS; unit++) o->demand[unit] *= 0.5f;
}

/* Return the entry of a unit's issue queue that becomes free first. */
static uint64_t *queue_entry(const sim *s, uint32_t unit) {
    uint32_t room = s->machine.issue_queue;
    uint64_t *queue = s->out.queues + (size_t)unit * room, *first = queue;
    for (uint32_t n = 1; n < room; n++)
        if (queue[n] < *first) first = &queue[n];
    return first;
}

/* Book one of the units from its first free cycle on; return that cycle. */
static uint64_t book(sim *s, const sim_use *use, uint64_t ready) {
    sim_out_of_order *o = &s->out;
    uint64_t end = o->cleared + HORIZON - 128;
    add_demand(o, use);
    for (uint64_t cycle = ready; (cycle = first_idle(o, use->units, cycle, end)) + use->cycles < end; cycle++) {
        uint32_t best = SIM_UNITS;
        for (uint64_t units = use->units; units; units &= units - 1) {
            uint32_t unit = (uint32_t)__builtin_ctzll(units);
            if (is_free(o, unit, cycle, use->cycles) && (best == SIM_UNITS || o->demand[unit] < o->demand[best]))
                best = unit;
        }
        if (best == SIM_UNITS) continue;
        for (uint64_t at = cycle; at < cycle + use->cycles; at++)
            o->busy[best * WORDS + at / 64 % WORDS] |= 1ull << at % 64;
        if (s->machine.issue_queue) *queue_entry(s, best) = cycle;
        return cycle;
    }
    return ready; /* beyond the reservation tables: after a long chain of misses the units are idle */
}

/* Return the first cycle in which the issue queue of one of the units has room. */
static uint64_t queue_room(const sim *s, uint64_t units) {
    uint64_t room = ~0ull;
    for (; units; units &= units - 1) {
        uint64_t at = *queue_entry(s, (uint32_t)__builtin_ctzll(units));
        room = at < room ? at : room;
    }
    return room;
}

/* Return those of the units whose issue queues have room; all of them if none has. */
static uint64_t with_room(const sim *s, uint64_t units, uint64_t cycle) {
    uint64_t found = 0;
    for (uint64_t left = units; left; left &= left - 1)
        if (*queue_entry(s, (uint32_t)__builtin_ctzll(left)) <= cycle) found |= left & -left;
    return found ? found : units;
}

static uint64_t forwarded(const sim_out_of_order *o, const sim_access *a, uint64_t issue) {
    uint64_t late = 0;
    for (uint64_t word = a->address / 8; word <= (a->address + a->bytes - 1) / 8; word++) {
        uint32_t row = word % STORES;
        if (o->stored[row] == word + 1 && o->stored_gone[row] > issue &&
            o->stored_ready[row] + FORWARD_CYCLES > issue) {
            uint64_t wait = o->stored_ready[row] + FORWARD_CYCLES - issue;
            late = wait > late ? wait : late;
        }
    }
    return late;
}

static void remember_store(sim_out_of_order *o, const sim_access *a, uint64_t issue, uint64_t gone) {
    for (uint64_t word = a->address / 8; word <= (a->address + a->bytes - 1) / 8; word++) {
        uint32_t row = word % STORES;
        o->stored[row] = word + 1;
        o->stored_ready[row] = issue;
        o->stored_gone[row] = gone;
    }
}

static void raise(uint64_t *cycle, uint64_t until, uint32_t *cause, uint32_t why) {
    if (until > *cycle) {
        *cycle = until;
        *cause = why;
    }
}

uint64_t out_of_order_issue(sim *s, const sim_row *row, const sim_access *access, uint64_t pc) {
    const sim_machine *m = &s->machine;
    const sim_pattern *p = &s->patterns[row->pattern];
    sim_out_of_order *o = &s->out;
    uint32_t count = p->slots ? p->slots : 1, cause = SIM_CAUSES; /* of instructions without a model: 1 */
    int load = access != NULL && access->kind & (SIM_LOAD | SIM_PREFETCH),
        store = access != NULL && access->kind & SIM_STORE;

    uint64_t cycle = o->dispatch;
    if (o->dispatched >= m->width) cycle++;
    raise(&cycle, s->fetch_ready, &cause, s->fetch_cause);
    for (uint32_t n = 0; n < count && n < m->reorder_buffer; n++)
        raise(&cycle, o->window[(o->window_at + n) % m->reorder_buffer], &cause, SIM_WINDOW);
    if (load) raise(&cycle, o->loads[o->load_at % m->load_queue], &cause, SIM_LOAD_QUEUE);
    if (store) raise(&cycle, o->stores[o->store_at % m->store_queue], &cause, SIM_STORE_BUFFER);
    for (uint32_t n = 0; m->issue_queue && n < p->use_count; n++)
        raise(&cycle, queue_room(s, p->uses[n].units), &cause, SIM_ISSUE_QUEUE);
    if (cycle > o->dispatch) {
        o->dispatch = cycle;
        o->dispatched = 0;
        if (cycle > o->cleared + 64) clear_until(o, m->unit_count, cycle);
    }
    o->dispatched += count;
    while (o->dispatched > m->width) { /* the last micro-operation dispatches cycles later */
        o->dispatched -= m->width;
        o->dispatch++;
    }
    cycle = o->dispatch;

    uint64_t ready = cycle, update = cycle;
    for (uint32_t n = 0; n < row->read_count; n++) {
        const sim_writer *by = &s->writers[row->reads[n]];
        if (!by->known) continue;
        uint64_t there = by->issue + (uint64_t)latency_of(s, by, row, row->roles[n]) + by->late;
        raise(&ready, there, &cause, by->late ? SIM_MEMORY_WAIT : SIM_REGISTER_WAIT);
        if (row->reads[n] == row->writeback && there > update) update = there;
    }
    uint64_t issue = ready, updated = update;
    uint32_t longer = access != NULL ? unaligned_cycles(s, p, access) : 0;
    for (uint32_t n = 0; n < p->use_count; n++) {
        sim_use use = p->uses[n];
        use.cycles += n < p->own_count ? longer : 0;
        use.units = m->issue_queue ? with_room(s, use.units, cycle) : use.units;
        uint64_t at = book(s, &use, n < p->own_count ? ready : update);
        if (n < p->own_count) raise(&issue, at, &cause, SIM_UNIT);
        else if (at > updated) updated = at;
    }
    uint64_t late = 0, drains = 0;
    if (access != NULL) {
        late = caches_access(s, pc, access->address, access->bytes, access->kind, issue);
        late += longer;
        if (access->kind & SIM_LOAD) {
            uint64_t wait = forwarded(o, access, issue);
            late = wait > late ? wait : late;
        } else { /* stores and prefetches complete before their line arrives */
            drains = issue + late;
            late = 0;
        }
    }
    uint64_t complete = issue + (row->latency && row->write_count ? row->latency : 1) + late;
    if (late) cause = SIM_MEMORY_WAIT;
    if (complete > o->retire) {
        uint64_t empty = complete - o->retire - 1;
        s->counts.stalls[cause == SIM_CAUSES ? SIM_REGISTER_WAIT : cause] += empty;
        o->retire = complete;
        o->retired = 0;
    }
    o->retired += count;
    while (o->retired > m->width) {
        o->retired -= m->width;
        o->retire++;
    }
    for (uint32_t n = 0; n < count; n++) o->window[o->window_at++ % m->reorder_buffer] = o->retire;
    if (load) o->loads[o->load_at++ % m->load_queue] = o->retire;
    if (store) { /* it keeps its entry until it is in the cache: in order, after a missing line has arrived */
        uint64_t gone = o->retire > drains ? o->retire + 1 : drains + 1;
        gone = gone > o->last_gone ? gone : o->last_gone;
        o->last_gone = gone;
        o->stores[o->store_at++ % m->store_queue] = gone;
        remember_store(o, access, issue, gone);
    }
    for (uint32_t n = 0; n < row->write_count; n++) {
        int is_update = row->writes[n] == row->writeback;
        s->writers[row->writes[n]] = (sim_writer){
            .issue = is_update ? updated : issue,
            .late = is_update ? 0 : late,
            .known = 1,
            .op_class = is_update ? row->writeback_class : row->op_class,
            .latency = is_update ? row->writeback_latency : row->latency,
        };
    }
    return issue;
}

void out_of_order_pass(sim *s, uint64_t cycle) {
    sim_out_of_order *o = &s->out;
    o->dispatch = o->retire = cycle;
    o->dispatched = o->retired = 0;
    clear_until(o, s->machine.unit_count, cycle);
}
