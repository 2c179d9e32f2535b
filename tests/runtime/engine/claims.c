/* Plays steps through with a clock of its own for each thread, and the engine's arithmetic of claims.
 *
 * A line of input: rows grain threads, then for each thread the time that a row takes it and the weight that the engine
 * is told. A line of output: when the last thread ends by the engine's claims, and by claims of one grain each; how many
 * claims there were of the first kind; rows that were done. Thread 0 is the caller. */
#include <stdint.h>
#include <stdio.h>

#include "engine_claim.c"

enum { MOST = 1024 };

struct played {
    uint64_t end, claims, rows;
};

static uint64_t cost[MOST], clock_of[MOST];
static uint32_t weight[MOST];
static uint8_t in[MOST], gone[MOST];

/* Whose clock is first; the caller's when several are, since it is there already. */
static uint32_t first_of(uint32_t threads) {
    uint32_t who = threads;
    for (uint32_t i = 0; i < threads; i++)
        if (!gone[i] && (who == threads || clock_of[i] < clock_of[who])) who = i;
    return who;
}

static struct played play(uint32_t rows, uint32_t grain, uint32_t threads, int guided) {
    struct engine_team team = {0, 0};
    struct played played = {0, 0, 0};
    uint64_t ticket = first_ticket(7);
    for (uint32_t i = 0; i < threads; i++) {
        clock_of[i] = gone[i] = in[i] = 0;
        team.total += weight[i];
        if (weight[i] > team.fastest) team.fastest = weight[i];
    }
    in[0] = 1;
    for (uint32_t who; (who = first_of(threads)) < threads;) {
        struct engine_claim claim = {ticket, 0, 0};
        uint32_t left = rows_left(ticket, rows);
        if (guided) claim = claim_of(ticket, in[who], who & 1, rows, grain, weight[who], team);
        else claim.ticket += claim.rows = left < grain ? left : grain;
        /* What is claimed follows what was claimed at the one end or at the other, and begins where a grain does. */
        if (guided && claim.rows) {
            uint32_t front = ticket_front(ticket, rows), end = rows - ticket_back(ticket, rows);
            int at_front = claim.begin == front, at_end = claim.begin >= front && claim.begin + claim.rows == end;
            if ((!at_front && !at_end) || claim.begin % grain) return played;
        }
        ticket = claim.ticket;
        if (ticket_step(ticket) != 7 || ticket_threads(ticket) > threads) return played;
        if ((uint64_t)ticket_front(ticket, rows) + ticket_back(ticket, rows) > rows) return played;
        in[who] = claim.rows > 0;
        gone[who] = !in[who];
        clock_of[who] += claim.rows * cost[who];
        played.rows += claim.rows;
        played.claims += claim.rows > 0;
        if (clock_of[who] > played.end) played.end = clock_of[who];
    }
    return played;
}

int main(void) {
    uint32_t rows, grain, threads;
    while (scanf("%u %u %u", &rows, &grain, &threads) == 3) {
        for (uint32_t i = 0; i < threads; i++)
            if (scanf("%lu %u", &cost[i], &weight[i]) != 2) return 1;
        struct played guided = play(rows, grain, threads, 1), equal = play(rows, grain, threads, 0);
        printf("%lu %lu %lu %lu\n", guided.end, equal.end, guided.claims, guided.rows);
    }
    return 0;
}
