/* Sampling: of each stratum of `period` instructions, one unit at a random position is timed in detail. Before a unit,
   caches and branch predictor process instructions that are not timed (functional warming; Wunderlich, Wenisch,
   Falsafi, Hoe: SMARTS, ISCA 2003). Each of these takes the average time of an instruction in the last unit, so that
   prefetchers have as much time as in a timed run. The last instructions before a unit are timed but not counted, so
   that the state of the pipeline and the line fills in flight are like those in the middle of a run. */
#include <string.h>

#include "simulate.h"

static uint64_t next_random(sim_sampler *p) { /* splitmix64 (Steele, Lea, Flood 2014) */
    uint64_t z = p->random += 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}

static uint64_t clock_of(const sim *s) { return now(s) > s->fetch_ready ? now(s) : s->fetch_ready; }

/* Let the pipeline idle until this cycle. Skipped stores never wait, so that their lines may have booked the memory far
   ahead: limit the bookings to the fills that can be in flight, since a core would have waited for the others. */
static void pass_cycles(sim *s, uint64_t cycle) {
    caches_settle(s, cycle);
    if (cycle <= now(s)) return;
    if (s->machine.in_order) in_order_pass(s, cycle);
    else out_of_order_pass(s, cycle);
}

void sim_settle(sim *s) { pass_cycles(s, clock_of(s)); }

uint64_t sample_clock(const sim *s) {
    return s->phase <= SAMPLE_SKIP ? (uint64_t)s->sampler.skipped_cycle : clock_of(s);
}

/* Draw the position of the next stratum's unit. A unit may begin before its stratum, so that instructions at a
   stratum's ends are timed as often as others; the part of it that lies before the sampled range or in the last unit is
   cut off. */
static void next_stratum(sim_sampler *p) {
    uint64_t at = p->next + (p->period > p->unit ? next_random(p) % p->period : p->unit);
    p->unit_at = at > p->unit ? at - p->unit : 0;
    p->unit_end = at;
    p->next += p->period;
}

static void begin_unit(sim *s) {
    sim_sampler *p = &s->sampler;
    p->phase = SAMPLE_MEASURE;
    p->unit_from = p->position;
    p->cycle_from = clock_of(s);
    p->callee_from = p->found.callee_cycles;
    memcpy(p->stalls_from, s->counts.stalls, sizeof p->stalls_from);
}

static void end_unit(sim *s) {
    sim_sampler *p = &s->sampler;
    uint64_t count = p->position - p->unit_from;
    p->phase = SAMPLE_SKIP;
    p->skipped_cycle = (double)clock_of(s);
    if (count == 0) return;
    double cycles = (double)(clock_of(s) - p->cycle_from - (p->found.callee_cycles - p->callee_from));
    double instructions = (double)count;
    p->found.measured += count;
    p->found.units++;
    p->found.cycles += cycles;
    double difference = p->found.units > 1 ? cycles / instructions - p->cycles_per_instr : 0;
    p->found.differences += difference * difference;
    p->cycles_per_instr = cycles / instructions;
    for (uint32_t n = 0; n < SIM_CAUSES; n++) p->found.stalls[n] += s->counts.stalls[n] - p->stalls_from[n];
}

uint32_t sample_phase(sim *s) {
    sim_sampler *p = &s->sampler;
    if (p->period == 0) return SAMPLE_MEASURE;
    if (p->unit == 0) return p->functional ? SAMPLE_SKIP : SAMPLE_FAST;
    if (p->phase == SAMPLE_MEASURE && p->position >= p->unit_end) {
        end_unit(s);
        next_stratum(p);
    }
    while (p->position >= p->unit_end) next_stratum(p);
    if (p->phase == SAMPLE_MEASURE) return p->phase;
    if (p->phase < SAMPLE_WARM && p->position + p->warm >= p->unit_at) pass_cycles(s, (uint64_t)p->skipped_cycle);
    if (p->position >= p->unit_at) begin_unit(s);
    else if (p->position + p->warm >= p->unit_at) p->phase = SAMPLE_WARM;
    else if (p->position + p->functional >= (p->unit_at - p->warm < p->length ? p->unit_at - p->warm : p->length))
        p->phase = SAMPLE_SKIP; /* caches must be warm for the part that follows */
    else p->phase = SAMPLE_FAST;
    return p->phase;
}

uint64_t sample_cycle(const sim *s, uint32_t n) {
    return (uint64_t)(s->sampler.skipped_cycle + n * s->sampler.cycles_per_instr);
}

void sample_skip(sim *s, uint32_t count) { s->sampler.skipped_cycle += count * s->sampler.cycles_per_instr; }

void sample_callee(sim *s, uint64_t cycle) {
    s->sampler.found.callee_cycles += cycle - sample_clock(s);
    if (s->phase <= SAMPLE_SKIP) s->sampler.skipped_cycle = (double)cycle;
    else {
        s->fetch_ready = cycle;
        s->fetch_cause = SIM_CALLEE;
    }
}

void sim_sampling(sim *s, uint64_t period, uint32_t unit, uint32_t warm, uint64_t functional, uint64_t length,
                  uint64_t seed) {
    sim_sampler *p = &s->sampler;
    double cycles_per_instr = p->cycles_per_instr > 0 ? p->cycles_per_instr : 1;
    memset(p, 0, sizeof *p);
    p->cycles_per_instr = cycles_per_instr;
    p->skipped_cycle = (double)clock_of(s);
    p->period = period;
    p->unit = unit > period ? (uint32_t)period : unit;
    p->warm = warm;
    p->functional = functional;
    p->length = length;
    p->random = seed;
    if (p->period && p->unit) next_stratum(p);
    memset(&s->counts, 0, sizeof s->counts);
}

void sim_take_sample(sim *s, sim_sample *sample) {
    sim_sampler *p = &s->sampler;
    if (p->phase == SAMPLE_MEASURE) end_unit(s);
    if (s->phase <= SAMPLE_SKIP) pass_cycles(s, (uint64_t)p->skipped_cycle); /* lines in flight belong to that time */
    p->found.instructions = p->position;
    p->found.counts = s->counts;
    *sample = p->found;
    memset(&p->found, 0, sizeof p->found);
    memset(&s->counts, 0, sizeof s->counts);
    p->phase = SAMPLE_SKIP;
    p->position = p->next = 0;
    if (p->period && p->unit) next_stratum(p);
}
