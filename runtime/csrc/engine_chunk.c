/* Computes the chunks of a step that threads take. */
#include "engine_chunk.h"

#include "internal.h"

/* A thread takes at most 1/CHUNK_DIVISOR of its proportional share at once: speeds are modelled, and the remaining rows
 * even out the model's errors. Example: of two cores modelled as equal, one is six times slower. With 2 their step ends
 * 3/4 later than it could; with 4 it ends later by one minimum chunk. */
enum { CHUNK_DIVISOR = 4 };

/* The fields of a ticket: the step, the number of threads in it, and the rows taken at its end (back) and at its
 * beginning (front). A thread is in a step from its first chunk until it finds no rows left, or leaves them to others.
 * Rows stay below 2^31, steps below 2^20 (ensured by runtime/model_text.py) and threads below 2^12. A field never
 * overflows into its neighbour, because at most the remaining rows are added. In a step of 2^16 or more rows, chunks
 * are taken only from the beginning, and counted with all 32 bits. */
enum { TICKET_BACK = 16, TICKET_THREADS = 32, TICKET_STEP = 44 };

MAVCG_PRIVATE uint64_t first_ticket(uint32_t step) {
    return (uint64_t)step << TICKET_STEP | (uint64_t)1 << TICKET_THREADS;
}

MAVCG_PRIVATE uint32_t ticket_step(uint64_t ticket) { return (uint32_t)(ticket >> TICKET_STEP); }

/* Return the number of threads in the step. */
static uint32_t ticket_threads(uint64_t ticket) { return (uint32_t)(ticket >> TICKET_THREADS) & 0xFFF; }

/* True if the rows of a step are taken from both ends. */
static bool has_two_ends(uint32_t rows) { return rows < (uint32_t)1 << TICKET_BACK; }

/* Return the number of rows taken from the beginning of a step of `rows` rows. */
static uint32_t ticket_front(uint64_t ticket, uint32_t rows) {
    return has_two_ends(rows) ? (uint32_t)ticket & 0xFFFF : (uint32_t)ticket;
}

/* Return the number of rows taken from the end of the step. */
static uint32_t ticket_back(uint64_t ticket, uint32_t rows) {
    return has_two_ends(rows) ? (uint32_t)ticket >> TICKET_BACK : 0;
}

MAVCG_PRIVATE uint32_t rows_left(uint64_t ticket, uint32_t rows) {
    uint64_t taken = (uint64_t)ticket_front(ticket, rows) + ticket_back(ticket, rows);
    return taken < rows ? (uint32_t)(rows - taken) : 0;
}

/* Return the number of rows that a thread of this speed takes of `remaining` (at least 1): a multiple of
 * min_chunk_rows, or all. As remaining < 2^31 and speed < 2^16, every product fits into 64 bits. Any number from 1 to
 * remaining would be correct. */
static uint32_t chunk_rows(uint32_t remaining, uint32_t min_chunk_rows, uint32_t speed, struct engine_team team) {
    uint64_t parts = (team.total > speed ? team.total : speed) * CHUNK_DIVISOR;
    uint64_t share = (uint64_t)remaining * speed / (parts ? parts : 1);
    uint64_t rows = share > min_chunk_rows ? (share + min_chunk_rows - 1) / min_chunk_rows * min_chunk_rows
                                           : min_chunk_rows;
    return rows < remaining ? (uint32_t)rows : remaining;
}

/* True if the step ends no later when a thread of this speed leaves the remaining rows to the others. This is so if the
 * others would finish these rows, and a minimum chunk that the fastest may have in progress, before this thread would
 * finish one minimum chunk. */
static bool others_end_first(uint32_t remaining, uint32_t min_chunk_rows, uint32_t speed, struct engine_team team) {
    if (speed >= team.fastest || team.total <= speed) return false;
    uint64_t others = team.total - speed, first = remaining < min_chunk_rows ? remaining : min_chunk_rows;
    /* Tests first / speed >= remaining / others + first / fastest, multiplied by `others`, which is below 2^10 threads
     * times 2^16. */
    return first * others / (speed ? speed : 1) >= remaining + first * others / team.fastest;
}

/* The last thread in a step never leaves rows behind, even if it is moved to another core: all rows are computed, and
 * no other thread needs to join. A chunk begins at a multiple of min_chunk_rows, also at the step's end. */
MAVCG_PRIVATE struct engine_chunk next_chunk(uint64_t ticket, bool in, bool back, uint32_t rows,
                                             uint32_t min_chunk_rows, uint32_t speed, struct engine_team team) {
    const uint64_t one_thread = (uint64_t)1 << TICKET_THREADS;
    struct engine_chunk chunk = {ticket, 0, 0};
    uint32_t left = rows_left(ticket, rows), front = ticket_front(ticket, rows);
    if (!left) return chunk;
    if (ticket_threads(ticket) > (in ? 1 : 0) && others_end_first(left, min_chunk_rows, speed, team)) {
        if (in) chunk.ticket -= one_thread;
        return chunk;
    }
    chunk.rows = chunk_rows(left, min_chunk_rows, speed, team);
    chunk.begin = front;
    back = back && has_two_ends(rows);
    if (back) {
        uint32_t end = front + left, over;
        chunk.begin = end - chunk.rows;
        over = chunk.begin % min_chunk_rows; /* part of a minimum chunk, at the end of the step */
        chunk.begin -= over;                 /* the front is a multiple of min_chunk_rows: these rows are left */
        if (2 * (uint64_t)over >= min_chunk_rows && chunk.begin + min_chunk_rows < end) chunk.begin += min_chunk_rows;
        chunk.rows = end - chunk.begin;
    }
    chunk.ticket += ((uint64_t)chunk.rows << (back ? TICKET_BACK : 0)) + (in ? 0 : one_thread);
    return chunk;
}
