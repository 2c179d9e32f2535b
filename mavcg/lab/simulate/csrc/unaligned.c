/* Accesses that are not aligned. */
#include "simulate.h"

static int crosses(const sim_access *a, uint64_t piece) {
    return (a->address + a->bytes - 1) / piece - a->address / piece > (a->bytes - 1) / piece;
}

uint32_t unaligned_cycles(sim *s, const sim_pattern *pattern, const sim_access *access) {
    enum { PIECE = 16 };
    if (access->bytes == 0 || !crosses(access, PIECE)) return 0;
    s->counts.unaligned++;
    if (pattern->unaligned) return pattern->unaligned;
    return crosses(access, s->machine.line_bytes) ? s->machine.split_cycles : 0;
}
