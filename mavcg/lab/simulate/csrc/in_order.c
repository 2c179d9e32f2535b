/* An in-order pipeline: the rules of passes/asm/models/in_order.py applied to a dynamic trace, with caches, a store
   buffer, unaligned accesses and mispredicted branches, which that model leaves out. */
#include "simulate.h"

/* Return the rule that forbids an op to take an issue slot in this cycle, or SIM_CAUSES if none does. */
static uint32_t broken_rule(const sim *s, const sim_pattern *p, uint64_t cycle) {
    const sim_in_order *in = &s->in;
    int beside = cycle == in->cycle && in->here;
    if (beside) {
        if (p->blocks && !p->last) return SIM_ALONE;
        if (p->first) return SIM_FIRST;
        if ((p->no_dual_these & in->those) | (p->no_dual_those & in->these)) return SIM_NO_DUAL_ISSUE;
    }
    for (uint32_t rules = p->spaced_then; rules; rules &= rules - 1) {
        uint32_t rule = (uint32_t)__builtin_ctz(rules);
        uint64_t since = cycle - in->cycle, apart = s->machine.spaced_cycles[rule];
        if (since <= apart && in->spaced[rule] >> (apart - since) & 1) return SIM_SPACING;
    }
    return SIM_CAUSES;
}

/* True if the units that an op needs are free in this cycle; taken: receives these units. */
static int has_units(const sim *s, const sim_pattern *p, uint64_t cycle, uint8_t *taken) {
    const sim_in_order *in = &s->in;
    uint64_t used = 0;
    for (uint32_t n = 0; n < p->use_count; n++) {
        uint64_t units = p->uses[n].units & ~used;
        while (units && in->unit_free[__builtin_ctzll(units)] > cycle) units &= units - 1;
        if (units == 0) return 0;
        taken[n] = (uint8_t)__builtin_ctzll(units);
        used |= 1ull << taken[n];
    }
    return 1;
}

/* Return the cause that keeps an op with ready operands from issuing in this cycle, or SIM_CAUSES. taken: receives its
   units. */
static uint32_t refusal(const sim *s, const sim_pattern *p, uint64_t cycle, uint8_t *taken) {
    uint32_t rule = broken_rule(s, p, cycle);
    return rule != SIM_CAUSES || has_units(s, p, cycle, taken) ? rule : SIM_UNIT;
}

/* Return the first cycle, from this one on, with room in the vector queue. Ops issue from the queue in order, so the
   first entry to leave is that of the op vector_queue ops ago. */
static uint64_t queue_room(const sim *s, uint64_t cycle) {
    uint64_t leaves = s->in.queue[(s->in.queue_at + QUEUED - s->machine.vector_queue) % QUEUED];
    return leaves > cycle ? leaves : cycle;
}

static void advance(sim_in_order *in, uint64_t cycle) {
    uint64_t cycles = cycle - in->cycle;
    for (uint32_t rules = in->spaced_rules; rules; rules &= rules - 1) {
        uint32_t rule = (uint32_t)__builtin_ctz(rules);
        in->spaced[rule] = cycles < 128 ? in->spaced[rule] << cycles : 0;
        if (!in->spaced[rule]) in->spaced_rules &= ~(1u << rule);
    }
    in->cycle = cycle;
    in->here = in->these = in->those = 0;
}

void in_order_pass(sim *s, uint64_t cycle) { advance(&s->in, cycle); }

/* Return the first cycle in which the store buffer has room. Stores leave the pipeline through this buffer, in
   order. */
static uint64_t buffer_room(const sim *s) {
    uint32_t room = s->machine.store_queue;
    return room ? s->store_drained[s->store_at % room] : 0;
}

static void buffer_store(sim *s, uint64_t cycle, uint64_t late) {
    uint32_t room = s->machine.store_queue;
    if (room == 0) return;
    uint64_t drained = cycle + 1 + late;
    if (drained <= s->store_last) drained = s->store_last + 1;
    s->store_last = drained;
    s->store_drained[s->store_at++ % room] = drained;
}

/* Return the role of the n-th register read. A sum reaches the next accumulation early, and others do not. */
static uint32_t role_of(const sim_in_order *in, const sim_row *row, uint32_t n, const sim_writer *by) {
    uint32_t role = row->roles[n];
    return role == SIM_ACC && by->accumulation != in->accumulations ? SIM_ACC_APART : role;
}

uint64_t in_order_issue(sim *s, const sim_row *row, const sim_access *access, uint64_t pc) {
    const sim_pattern *p = &s->patterns[row->pattern];
    sim_in_order *in = &s->in;
    uint32_t width = s->machine.width - (in->cycle < in->narrow_until);
    uint64_t start = in->here < width ? in->cycle : in->cycle + 1;
    uint64_t idle_from = in->cycle + (in->here > 0), cycle = start;
    uint32_t cause = SIM_REGISTER_WAIT;
    uint8_t taken[SIM_USES];

    for (uint32_t n = 0; n < row->read_count; n++) {
        const sim_writer *by = &s->writers[row->reads[n]];
        if (!by->known) continue;
        uint64_t ready = by->issue + (uint64_t)latency_of(s, by, row, role_of(in, row, n, by)) + by->late;
        if (ready > cycle) {
            cycle = ready;
            cause = by->late ? SIM_MEMORY_WAIT : SIM_REGISTER_WAIT;
        }
    }
    for (uint32_t n = 0; n < row->write_count; n++) {
        const sim_writer *by = &s->writers[row->writes[n]];
        if (!by->known) continue;
        uint64_t own = row->writes[n] == row->writeback ? row->writeback_latency : row->latency;
        uint64_t earlier = by->latency + by->late, more = s->machine.same_cycle_writes ? 0 : 1;
        uint64_t wait = earlier > own ? earlier - own + more : more;
        if (by->issue + wait > cycle) {
            cycle = by->issue + wait;
            cause = by->late ? SIM_MEMORY_WAIT : SIM_WRITE_ORDER;
        }
    }
    uint64_t ready = cycle; /* when the operands are ready */
    if (row->queued) {
        cycle = queue_room(s, start);
        cause = SIM_ISSUE_QUEUE;
    }
    if (in->blocked_until > cycle) {
        cycle = in->blocked_until;
        cause = in->blocked_cause;
    }
    if (s->fetch_ready > cycle) {
        cycle = s->fetch_ready;
        cause = s->fetch_cause;
    }
    if (access != NULL && access->kind & SIM_STORE && row->queued) {
        if (buffer_room(s) > ready) ready = buffer_room(s);
    } else if (access != NULL && access->kind & SIM_STORE && buffer_room(s) > cycle) {
        cycle = buffer_room(s);
        cause = SIM_STORE_BUFFER;
    }
    if (cycle > idle_from) s->counts.stalls[cause] += cycle - idle_from;
    while ((cause = row->queued ? broken_rule(s, p, cycle) : refusal(s, p, cycle, taken)) != SIM_CAUSES) {
        if (cycle >= idle_from) s->counts.stalls[cause]++;
        cycle++;
    }

    if (cycle > in->cycle) advance(in, cycle);
    in->here++;
    in->these |= p->no_dual_these;
    in->those |= p->no_dual_those;
    for (uint32_t rules = p->spaced_first; rules; rules &= rules - 1) in->spaced[__builtin_ctz(rules)] |= 1;
    in->spaced_rules |= p->spaced_first;
    uint64_t slot = cycle;
    if (row->queued) { /* the op takes its slot now, and issues after the older ops in the queue */
        if (ready > cycle) cycle = ready;
        if (in->vector_cycle > cycle) cycle = in->vector_cycle;
        while (!has_units(s, p, cycle, taken)) cycle++;
        in->vector_cycle = in->queue[in->queue_at++ % QUEUED] = cycle;
    }
    for (uint32_t n = 0; n < p->use_count; n++) in->unit_free[taken[n]] = cycle + p->uses[n].cycles;
    uint64_t late = 0, longer = 0;
    if (access != NULL) {
        longer = unaligned_cycles(s, p, access);
        for (uint32_t n = 0; longer && n < p->own_count; n++) in->unit_free[taken[n]] += longer;
        late = caches_access(s, pc, access->address, access->bytes, access->kind, cycle);
        if (access->kind & SIM_STORE) buffer_store(s, cycle, late);
        late = access->kind & SIM_LOAD ? late + longer : 0;
    }
    if (p->blocks) {
        in->blocked_until = slot + p->blocks + longer;
        in->blocked_cause = SIM_BLOCKED;
    }
    if (p->narrows) in->narrow_until = slot + p->blocks + longer + p->narrows;
    in->accumulations += row->accumulates;
    for (uint32_t n = 0; n < row->write_count; n++) {
        int updated = row->writes[n] == row->writeback;
        s->writers[row->writes[n]] = (sim_writer){
            .issue = cycle,
            .late = updated ? 0 : late,
            .accumulation = row->accumulates ? in->accumulations : 0,
            .known = 1,
            .op_class = updated ? row->writeback_class : row->op_class,
            .latency = updated ? row->writeback_latency : row->latency,
        };
    }
    return cycle;
}
