/* Steps played through with the engine's arithmetic of claims: every row is done once, whatever the speeds, the sizes and
 * the order of the threads. Input: rows (4 bytes), grain (4), threads (2), their weights (2 each), then who is next. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine_claim.c"

enum { MOST = 64, MOST_GRAINS = 1 << 12 };

struct bytes {
    const uint8_t *at, *end;
};

static uint32_t next(struct bytes *in, unsigned count) {
    uint32_t value = 0;
    for (; count; count--) value = value << 8 | (in->at < in->end ? *in->at++ : 0);
    return value;
}

static void need(int true) {
    if (!true) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bytes in = {data, data + size};
    uint32_t weight[MOST], is_in[MOST] = {1}, gone[MOST] = {0};
    uint32_t rows = 1 + next(&in, 4) % 0x7FFFFFFE, grain = 1 + next(&in, 4) % 0x7FFFFFFE;
    uint32_t threads = 1 + next(&in, 2) % MOST, here = threads;
    struct engine_team team = {0, 0};
    const uint32_t step = 0xFFFFF;
    if (rows / grain > MOST_GRAINS) grain = rows / MOST_GRAINS + 1; /* in thousandths of a second */
    for (uint32_t i = 0; i < threads; i++) {
        weight[i] = next(&in, 2); /* 0 too */
        team.total += weight[i];
        if (weight[i] > team.fastest) team.fastest = weight[i];
    }
    if (next(&in, 1) & 1) team.total = next(&in, 4), team.fastest = next(&in, 2); /* as of another step */
    uint64_t ticket = first_ticket(step), done = 0, turns = 0;
    while (here) {
        uint32_t who = in.at < in.end ? next(&in, 1) % threads : (uint32_t)(turns % threads);
        turns++;
        if (gone[who]) {
            for (uint32_t i = 0; i < threads && gone[who]; i++) who = (who + 1) % threads;
        }
        uint32_t front = ticket_front(ticket, rows), end = rows - ticket_back(ticket, rows);
        struct engine_claim claim = claim_of(ticket, (int)is_in[who], who & 1, rows, grain, weight[who], team);
        if (claim.rows) {
            int at_front = claim.begin == front;
            int at_end = claim.begin >= front && (uint64_t)claim.begin + claim.rows == end;
            need(at_front || at_end);
            need((uint64_t)claim.begin + claim.rows <= end);
            need(claim.begin % grain == 0);
            is_in[who] = 1;
        } else {
            is_in[who] = 0;
            gone[who] = 1;
            here--;
        }
        done += claim.rows;
        ticket = claim.ticket;
        need(ticket_step(ticket) == step && ticket_threads(ticket) <= threads);
        need((uint64_t)ticket_front(ticket, rows) + ticket_back(ticket, rows) <= rows);
    }
    need(done == rows);
    return 0;
}
