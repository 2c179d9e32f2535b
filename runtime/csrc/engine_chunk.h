/* The chunks of a step that threads take: pure functions of the ticket and of speeds, so that a test can simulate steps
 * with clocks of its own (tests/runtime/engine/chunks.c).
 *
 * Guided self-scheduling (Polychronopoulos and Kuck, IEEE Transactions on Computers 36, 1987): each chunk is a share of
 * the rows that are left, so that chunks shrink to the minimum and no thread is busy for long after the others. The
 * share is weighted by the speed of the thread's core (Hummel et al., "Load-sharing in heterogeneous systems via weighted
 * factoring", SPAA 1996), so that a chunk takes about as long on any core.
 *
 * The caller, and every other thread with it, takes chunks from the first row on, the rest from the last one back. So a
 * thread has about the same part of an image in each step, and its core's cache still holds what it wrote there in the
 * step before; what another core wrote has to be fetched from that core. Chains of 1x1 convolutions took 3 percent less
 * time for it, those of few channels 15. */
#ifndef MAVCG_ENGINE_CHUNK_H
#define MAVCG_ENGINE_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#include "internal.h"

/* The speeds of the threads that take part, in one unit: their sum, the highest. */
struct engine_team {
    uint64_t total;
    uint32_t fastest;
};

/* The decision of a thread that read a ticket. rows 0: the thread takes no (more) part in the step. Otherwise, and where
 * `ticket` differs from the one that was read, this ticket replaces it, unless another thread was faster. */
struct engine_chunk {
    uint64_t ticket;
    uint32_t begin, rows;
};

/* A ticket of a step of which no row is taken; the caller is in the step from the beginning. */
MAVCG_PRIVATE uint64_t first_ticket(uint32_t step);

MAVCG_PRIVATE uint32_t ticket_step(uint64_t ticket);

/* Rows of the step that no thread has taken. */
MAVCG_PRIVATE uint32_t rows_left(uint64_t ticket, uint32_t rows);

/* The chunk that a thread takes next. in: the thread is in the step already. back: it takes rows from the end. rows,
 * min_chunk_rows: the step's; speed: of the core that the thread runs on. */
MAVCG_PRIVATE struct engine_chunk next_chunk(uint64_t ticket, bool in, bool back, uint32_t rows,
                                             uint32_t min_chunk_rows, uint32_t speed, struct engine_team team);

#endif
