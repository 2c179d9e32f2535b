/* The chunks of a step that threads take, computed by pure functions of the ticket and of speeds, so that a test can
 * simulate steps with its own clocks (tests/runtime/engine/chunks.c).
 *
 * Guided self-scheduling (Polychronopoulos and Kuck, IEEE Transactions on Computers 36, 1987): each chunk is a share of
 * the remaining rows, so that chunks shrink to the minimum and no thread finishes long after the others. The share is
 * weighted by the speed of the thread's core (Hummel et al., "Load-sharing in heterogeneous systems via weighted
 * factoring", SPAA 1996), so that a chunk takes about as long on any core.
 *
 * Threads 0 (the caller), 2, 4 and so on take chunks from the first row on, the others from the last row back. Thus a
 * thread computes about the same part of an image in each step, and finds in its core's cache what it wrote in the step
 * before; data written by another core must be fetched from that core. Chains of 1x1 convolutions took 3 percent less
 * time for it, those with few channels 15 percent. */
#ifndef MAVCG_ENGINE_CHUNK_H
#define MAVCG_ENGINE_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#include "internal.h"

/* Speeds of the participating threads, in one unit: their sum and the highest. */
struct engine_team {
    uint64_t total;
    uint32_t fastest;
};

/* The decision of a thread that read a ticket. rows 0: the thread leaves the step, or does not join it. If `ticket`
 * differs from the one that was read, the thread must replace the latter by it (compare and swap); if another thread
 * was faster, the decision is void. */
struct engine_chunk {
    uint64_t ticket;
    uint32_t begin, rows;
};

/* Return the ticket of a step with no rows taken; the caller is in the step from the start. */
MAVCG_PRIVATE uint64_t first_ticket(uint32_t step);

MAVCG_PRIVATE uint32_t ticket_step(uint64_t ticket);

/* Return the number of rows of the step that no thread has taken. */
MAVCG_PRIVATE uint32_t rows_left(uint64_t ticket, uint32_t rows);

/* Return the next chunk of a thread. in: the thread is already in the step. back: it takes rows from the end. rows,
 * min_chunk_rows: of the step. speed: of the core that the thread runs on. */
MAVCG_PRIVATE struct engine_chunk next_chunk(uint64_t ticket, bool in, bool back, uint32_t rows,
                                             uint32_t min_chunk_rows, uint32_t speed, struct engine_team team);

#endif
