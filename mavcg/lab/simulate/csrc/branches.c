/* Branch prediction: two-bit counters indexed by address and, if the machine has history bits, by global history
   (gshare, McFarling 1993); the last target of each indirect jump; a stack of return addresses. Direct jumps are always
   predicted correctly. */
#include <string.h>

#include "simulate.h"

void predictor_new(sim *s) {
    sim_predictor *p = &s->predictor;
    memset(p, 0, sizeof *p);
    memset(p->counters, 2, sizeof p->counters); /* weakly taken */
    p->history_mask = (1u << s->machine.history_bits) - 1;
}

int sim_branch(sim *s, uint64_t pc, int taken) {
    sim_predictor *p = &s->predictor;
    uint8_t *counter = &p->counters[((uint32_t)(pc >> 2) ^ p->history << 2) % PATTERN_ROWS];
    int wrong = (*counter >= 2) != taken;
    if (taken && *counter < 3) ++*counter;
    if (!taken && *counter > 0) --*counter;
    p->history = (p->history << 1 | (uint32_t)taken) & p->history_mask;
    return wrong;
}

int predictor_jump(sim *s, uint32_t flow, uint64_t pc, uint64_t next, uint64_t target) {
    sim_predictor *p = &s->predictor;
    if (flow == SIM_CONDITION) return sim_branch(s, pc, target != next);
    if (flow == SIM_CALL || flow == SIM_CALL_INDIRECT) p->returns[p->return_top++ % RETURN_STACK] = next;
    if (flow == SIM_RETURN) {
        if (target == s->return_address) /* a return to the simulation's caller is never a misprediction */
            return 0;
        return p->returns[--p->return_top % RETURN_STACK] != target;
    }
    if (flow == SIM_INDIRECT || flow == SIM_CALL_INDIRECT) {
        uint32_t row = (uint32_t)(pc >> 2) % TARGETS;
        int wrong = p->target_of[row] != pc || p->target[row] != target;
        p->target_of[row] = pc;
        p->target[row] = target;
        return wrong;
    }
    return 0;
}
