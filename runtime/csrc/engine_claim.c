/* What a claim takes: pure functions of the ticket and of speeds, so that a test can play steps through with clocks of its
 * own (tests/runtime/engine/claims.c).
 *
 * Guided self-scheduling (Polychronopoulos and Kuck, IEEE Transactions on Computers 36, 1987): each claim takes a share of
 * what is left, so that claims shrink to the grain and nobody is busy for long after the others. The share is weighted by
 * the speed of the claiming thread's core (Hummel et al., "Load-sharing in heterogeneous systems via weighted factoring",
 * SPAA 1996), so that a claim takes about as long on any core.
 *
 * The caller, and every other thread with it, claims from the first row on, the rest from the last one back. So a thread
 * has about the same part of an image in each step, and finds in its core's cache what it made of it in the one before: what
 * another core made comes a long way. Chains of 1x1 convolutions took 3 percent less for it, of few channels 15. */

/* Only this part of a thread's due share at once: speeds are modelled, and what is left evens out what the model got wrong.
 * With 2, the step of two cores that are said to be alike, and of which one is six times slower, ends 3/4 later than it
 * could; with 4 by one grain. */
enum { CLAIM_PART = 4 };

/* The ticket: the step, how many threads are in it, how many rows were claimed at its end and at its beginning. A thread is
 * in a step from its first claim on until it finds no rows left, or leaves them to others. Rows stay below 2^31, steps below
 * 2^20 (runtime/model_text.py sees to it), threads below 2^12: nothing ever runs over into its neighbour, for only what is
 * there to be claimed is added. A step of 2^16 rows or more is claimed from its beginning only, with all 32 bits. */
enum { TICKET_BACK = 16, TICKET_THREADS = 32, TICKET_STEP = 44 };

static uint64_t first_ticket(uint32_t step) { /* the caller is in the step from the beginning */
    return (uint64_t)step << TICKET_STEP | (uint64_t)1 << TICKET_THREADS;
}

static uint32_t ticket_step(uint64_t ticket) { return (uint32_t)(ticket >> TICKET_STEP); }
static uint32_t ticket_threads(uint64_t ticket) { return (uint32_t)(ticket >> TICKET_THREADS) & 0xFFF; }

static int has_two_ends(uint32_t rows) { return rows < (uint32_t)1 << TICKET_BACK; }

/* Rows claimed at the beginning, and at the end, of a step of so many. */
static uint32_t ticket_front(uint64_t ticket, uint32_t rows) {
    return has_two_ends(rows) ? (uint32_t)ticket & 0xFFFF : (uint32_t)ticket;
}

static uint32_t ticket_back(uint64_t ticket, uint32_t rows) {
    return has_two_ends(rows) ? (uint32_t)ticket >> TICKET_BACK : 0;
}

/* Rows that nobody has claimed. */
static uint32_t rows_left(uint64_t ticket, uint32_t rows) {
    uint64_t claimed = (uint64_t)ticket_front(ticket, rows) + ticket_back(ticket, rows);
    return claimed < rows ? (uint32_t)(rows - claimed) : 0;
}

/* The speeds of the threads that take part, in one unit: their sum, the highest. */
struct engine_team {
    uint64_t total;
    uint32_t fastest;
};

/* Rows to claim of `remaining` (1 or more) by a thread of speed `weight`: a multiple of the grain, or all.
 * remaining < 2^31 and weight < 2^16: no product leaves 64 bits. Any number from 1 to remaining would be right. */
static uint32_t rows_to_claim(uint32_t remaining, uint32_t grain, uint32_t weight, struct engine_team team) {
    uint64_t parts = (team.total > weight ? team.total : weight) * CLAIM_PART;
    uint64_t share = (uint64_t)remaining * weight / (parts ? parts : 1);
    uint64_t rows = share > grain ? (share + grain - 1) / grain * grain : grain;
    return rows < remaining ? (uint32_t)rows : remaining;
}

/* Whether a step is done no later when a thread of speed `weight` leaves what remains to the others: they are through with
 * it, and with a grain that the fastest of them may have in hand, when this thread would be with one grain. */
static int better_left(uint32_t remaining, uint32_t grain, uint32_t weight, struct engine_team team) {
    if (weight >= team.fastest || team.total <= weight) return 0;
    uint64_t others = team.total - weight, first = remaining < grain ? remaining : grain;
    /* first / weight >= remaining / others + first / fastest, times `others`; those are below 2^10 threads times 2^16. */
    return first * others / (weight ? weight : 1) >= remaining + first * others / team.fastest;
}

/* What a thread does with a ticket that it read: rows 0: it takes no part (any more). Otherwise, and where `ticket` is
 * another than the one read, this one takes its place, unless somebody was faster. */
struct engine_claim {
    uint64_t ticket;
    uint32_t begin, rows;
};

/* in: the thread is in the step. The last one that is in a step never leaves rows behind, wherever it is moved to: so
 * somebody does them all, and nobody needs to come. back: the thread claims from the end. Wherever it does, it begins at a
 * multiple of the grain. */
static struct engine_claim claim_of(uint64_t ticket, int in, int back, uint32_t rows, uint32_t grain, uint32_t weight,
                                    struct engine_team team) {
    const uint64_t one_thread = (uint64_t)1 << TICKET_THREADS;
    struct engine_claim claim = {ticket, 0, 0};
    uint32_t left = rows_left(ticket, rows), front = ticket_front(ticket, rows);
    if (!left) return claim;
    if (ticket_threads(ticket) > (in ? 1 : 0) && better_left(left, grain, weight, team)) {
        if (in) claim.ticket -= one_thread;
        return claim;
    }
    claim.rows = rows_to_claim(left, grain, weight, team);
    claim.begin = front;
    back = back && has_two_ends(rows);
    if (back) {
        uint32_t end = front + left, over;
        claim.begin = end - claim.rows;
        over = claim.begin % grain; /* of a step that ends within a grain */
        claim.begin -= over;        /* front is a multiple: so much is left */
        if (2 * (uint64_t)over >= grain && claim.begin + grain < end) claim.begin += grain;
        claim.rows = end - claim.begin;
    }
    claim.ticket += ((uint64_t)claim.rows << (back ? TICKET_BACK : 0)) + (in ? 0 : one_thread);
    return claim;
}
