/* Times the rows of a block by the core's pipeline, or passes them to caches and predictor alone. */
#include "simulate.h"

void process_row(sim *s, const sim_row *row, const sim_access *access, uint64_t pc, uint64_t next, uint32_t n) {
    int timed = s->phase > SAMPLE_SKIP;
    uint64_t issue = 0;
    if (timed)
        issue = s->machine.in_order ? in_order_issue(s, row, access, pc) : out_of_order_issue(s, row, access, pc);
    else if (access != NULL) caches_access(s, pc, access->address, access->bytes, access->kind, sample_cycle(s, n));
    if (row->flow == SIM_NEXT) return;
    s->counts.branches++;
    if (predictor_jump(s, row->flow, pc, pc + 4, next)) {
        s->counts.mispredicts++;
        if (timed) {
            s->fetch_ready = issue + s->machine.mispredict;
            s->fetch_cause = SIM_BRANCH;
        }
    }
}

void count_block(sim *s, const sim_block *block, int seen) {
    s->counts.instructions += block->count;
    if (s->phase <= SAMPLE_SKIP) sample_skip(s, block->count);
    s->sampler.position += block->count;
    s->sampler.found.seen += seen ? block->count : 0;
}
