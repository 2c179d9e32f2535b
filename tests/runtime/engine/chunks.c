/* Simulates steps with a clock for each thread, by the engine's own rule of chunks.
 *
 * A line of input: "step", rows, minimum chunk and threads, then for each thread the time of a row and the speed that the engine
 * is given. A line of output: the time at which the last thread ends with the engine's chunks, and with minimum chunks;
 * the number of chunks of the first kind; the rows that were computed. Thread 0 is the caller.
 *
 * A line "rule remaining min_chunk_rows speed total fastest" is answered with chunk_rows and others_end_first. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MAVCG_AMALGAMATION 1
#include "engine_chunk.c"

enum { MOST = 1024 };

struct simulated {
    uint64_t end, chunks, rows;
};

static uint64_t cost[MOST], clock_of[MOST];
static uint32_t speed[MOST];
static uint8_t in[MOST], gone[MOST];

/* The thread whose clock is first; the caller when several are, since it is in the step already. */
static uint32_t first_of(uint32_t threads) {
    uint32_t thread = threads;
    for (uint32_t i = 0; i < threads; i++)
        if (!gone[i] && (thread == threads || clock_of[i] < clock_of[thread])) thread = i;
    return thread;
}

static struct simulated simulate(uint32_t rows, uint32_t min_rows, uint32_t threads, int guided) {
    struct engine_team team = {0, 0};
    struct simulated simulated = {0, 0, 0};
    uint64_t ticket = first_ticket(7);
    for (uint32_t i = 0; i < threads; i++) {
        clock_of[i] = gone[i] = in[i] = 0;
        team.total += speed[i];
        if (speed[i] > team.fastest) team.fastest = speed[i];
    }
    in[0] = 1;
    for (uint32_t thread; (thread = first_of(threads)) < threads;) {
        struct engine_chunk chunk = {ticket, 0, 0};
        uint32_t left = rows_left(ticket, rows);
        if (guided) chunk = next_chunk(ticket, in[thread], thread & 1, rows, min_rows, speed[thread], team);
        else chunk.ticket += chunk.rows = left < min_rows ? left : min_rows;
        /* A chunk follows the rows taken at one of the ends, and begins at a multiple of the minimum. */
        if (guided && chunk.rows) {
            uint32_t front = ticket_front(ticket, rows), end = rows - ticket_back(ticket, rows);
            int at_front = chunk.begin == front, at_end = chunk.begin >= front && chunk.begin + chunk.rows == end;
            if ((!at_front && !at_end) || chunk.begin % min_rows) return simulated;
        }
        ticket = chunk.ticket;
        if (ticket_step(ticket) != 7 || ticket_threads(ticket) > threads) return simulated;
        if ((uint64_t)ticket_front(ticket, rows) + ticket_back(ticket, rows) > rows) return simulated;
        in[thread] = chunk.rows > 0;
        gone[thread] = !in[thread];
        clock_of[thread] += chunk.rows * cost[thread];
        simulated.rows += chunk.rows;
        simulated.chunks += chunk.rows > 0;
        if (clock_of[thread] > simulated.end) simulated.end = clock_of[thread];
    }
    return simulated;
}

int main(void) {
    uint32_t rows, min_rows, threads;
    char word[8];
    while (scanf("%7s", word) == 1) {
        if (!strcmp(word, "rule")) {
            uint32_t remaining, min_chunk_rows, own;
            struct engine_team team;
            if (scanf("%u %u %u %lu %u", &remaining, &min_chunk_rows, &own, &team.total, &team.fastest) != 5) return 1;
            printf("%u %d\n", chunk_rows(remaining, min_chunk_rows, own, team),
                   others_end_first(remaining, min_chunk_rows, own, team));
            continue;
        }
        if (scanf("%u %u %u", &rows, &min_rows, &threads) != 3) return 1;
        for (uint32_t i = 0; i < threads; i++)
            if (scanf("%lu %u", &cost[i], &speed[i]) != 2) return 1;
        struct simulated guided = simulate(rows, min_rows, threads, 1), equal = simulate(rows, min_rows, threads, 0);
        printf("%lu %lu %lu %lu\n", guided.end, equal.end, guided.chunks, guided.rows);
    }
    return 0;
}
