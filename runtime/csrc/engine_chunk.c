/* Computes the chunks that threads take of a step. */
#include "engine_chunk.h"

#include "internal.h"

/* A thread takes only this part of its due share at once: speeds are modelled, and the rows that are left even out the
 * errors of the model. With 2, a step of two cores that are modelled alike, of which one is six times slower, ends 3/4
 * later than it could; with 4 later by one minimum chunk. */
enum { CHUNK_DIVISOR = 4 };

/* The fields of a ticket: the step, how many threads are in it, how many rows were taken at its end and at its beginning.
 * A thread is in a step from its first chunk on until it sees no rows left, or leaves them to others. Rows stay below
 * 2^31, steps below 2^20 (runtime/model_text.py ensures it), threads below 2^12: no field ever overflows into its
 * neighbour, because only rows that are left are added. A step of 2^16 rows or more is taken from its beginning only, and
 * counted with all 32 bits. */
enum { TICKET_BACK = 16, TICKET_THREADS = 32, TICKET_STEP = 44 };

MAVCG_PRIVATE uint64_t first_ticket(uint32_t step) {
    return (uint64_t)step << TICKET_STEP | (uint64_t)1 << TICKET_THREADS;
}

MAVCG_PRIVATE uint32_t ticket_step(uint64_t ticket) { return (uint32_t)(ticket >> TICKET_STEP); }

/* The number of threads that are in the step. */
static uint32_t ticket_threads(uint64_t ticket) { return (uint32_t)(ticket >> TICKET_THREADS) & 0xFFF; }

/* True if rows of a step are taken at both ends. */
static bool has_two_ends(uint32_t rows) { return rows < (uint32_t)1 << TICKET_BACK; }

/* Rows taken at the beginning of a step of so many rows. */
static uint32_t ticket_front(uint64_t ticket, uint32_t rows) {
    return has_two_ends(rows) ? (uint32_t)ticket & 0xFFFF : (uint32_t)ticket;
}

/* Rows taken at its end. */
static uint32_t ticket_back(uint64_t ticket, uint32_t rows) {
    return has_two_ends(rows) ? (uint32_t)ticket >> TICKET_BACK : 0;
}

MAVCG_PRIVATE uint32_t rows_left(uint64_t ticket, uint32_t rows) {
    uint64_t taken = (uint64_t)ticket_front(ticket, rows) + ticket_back(ticket, rows);
    return taken < rows ? (uint32_t)(rows - taken) : 0;
}

/* Rows that a thread of this speed takes of `remaining` (1 or more): a multiple of min_chunk_rows, or all.
 * remaining < 2^31 and speed < 2^16: every product fits into 64 bits. Any number from 1 to remaining would be right. */
static uint32_t chunk_rows(uint32_t remaining, uint32_t min_chunk_rows, uint32_t speed, struct engine_team team) {
    uint64_t parts = (team.total > speed ? team.total : speed) * CHUNK_DIVISOR;
    uint64_t share = (uint64_t)remaining * speed / (parts ? parts : 1);
    uint64_t rows = share > min_chunk_rows ? (share + min_chunk_rows - 1) / min_chunk_rows * min_chunk_rows
                                           : min_chunk_rows;
    return rows < remaining ? (uint32_t)rows : remaining;
}

/* True if a step ends no later when a thread of this speed leaves the remaining rows to the others: they finish these,
 * and a minimum chunk that the fastest of them may be working on, before this thread would finish one minimum chunk. */
static bool others_end_first(uint32_t remaining, uint32_t min_chunk_rows, uint32_t speed, struct engine_team team) {
    if (speed >= team.fastest || team.total <= speed) return false;
    uint64_t others = team.total - speed, first = remaining < min_chunk_rows ? remaining : min_chunk_rows;
    /* first / speed >= remaining / others + first / fastest, times `others`; these are below 2^10 threads times 2^16. */
    return first * others / (speed ? speed : 1) >= remaining + first * others / team.fastest;
}

/* The last thread that is in a step never leaves rows behind, wherever it is moved to: so all rows are computed, and no
 * other thread needs to come. A chunk begins at a multiple of min_chunk_rows, at the step's end too. */
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
        over = chunk.begin % min_chunk_rows; /* of a step that ends within a minimum chunk */
        chunk.begin -= over;                 /* front is a multiple: so much is left */
        if (2 * (uint64_t)over >= min_chunk_rows && chunk.begin + min_chunk_rows < end) chunk.begin += min_chunk_rows;
        chunk.rows = end - chunk.begin;
    }
    chunk.ticket += ((uint64_t)chunk.rows << (back ? TICKET_BACK : 0)) + (in ? 0 : one_thread);
    return chunk;
}
