/* Steps simulated by the engine's rule of chunks: every row is computed once, whatever the speeds, the sizes and the order
 * of the threads. Input: rows (4 bytes), minimum chunk (4), threads (2), their speeds (2 each), then the thread that is
 * next. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAVCG_AMALGAMATION 1
#include "engine_chunk.c"

enum { MOST = 64, MOST_CHUNKS = 1 << 12 };

struct bytes {
    const uint8_t *at, *end;
};

static uint32_t next(struct bytes *in, unsigned count) {
    uint32_t value = 0;
    for (; count; count--) value = value << 8 | (in->at < in->end ? *in->at++ : 0);
    return value;
}

static void need(int condition) {
    if (!condition) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bytes in = {data, data + size};
    uint32_t speed[MOST], is_in[MOST] = {1}, gone[MOST] = {0};
    uint32_t rows = 1 + next(&in, 4) % 0x7FFFFFFE, min_rows = 1 + next(&in, 4) % 0x7FFFFFFE;
    uint32_t threads = 1 + next(&in, 2) % MOST, in_step = threads;
    struct engine_team team = {0, 0};
    const uint32_t step = 0xFFFFF;
    if (rows / min_rows > MOST_CHUNKS) min_rows = rows / MOST_CHUNKS + 1; /* in thousandths of a second */
    for (uint32_t i = 0; i < threads; i++) {
        speed[i] = next(&in, 2); /* 0 too */
        team.total += speed[i];
        if (speed[i] > team.fastest) team.fastest = speed[i];
    }
    if (next(&in, 1) & 1) team.total = next(&in, 4), team.fastest = next(&in, 2); /* as of another step */
    uint64_t ticket = first_ticket(step), done = 0, calls = 0;
    while (in_step) {
        uint32_t thread = in.at < in.end ? next(&in, 1) % threads : (uint32_t)(calls % threads);
        calls++;
        if (gone[thread]) {
            for (uint32_t i = 0; i < threads && gone[thread]; i++) thread = (thread + 1) % threads;
        }
        uint32_t front = ticket_front(ticket, rows), end = rows - ticket_back(ticket, rows);
        struct engine_chunk chunk = next_chunk(ticket, (int)is_in[thread], thread & 1, rows, min_rows, speed[thread],
                                               team);
        if (chunk.rows) {
            int at_front = chunk.begin == front;
            int at_end = chunk.begin >= front && (uint64_t)chunk.begin + chunk.rows == end;
            need(at_front || at_end);
            need((uint64_t)chunk.begin + chunk.rows <= end);
            need(chunk.begin % min_rows == 0);
            is_in[thread] = 1;
        } else {
            is_in[thread] = 0;
            gone[thread] = 1;
            in_step--;
        }
        done += chunk.rows;
        ticket = chunk.ticket;
        need(ticket_step(ticket) == step && ticket_threads(ticket) <= threads);
        need((uint64_t)ticket_front(ticket, rows) + ticket_back(ticket, rows) <= rows);
    }
    need(done == rows);
    return 0;
}
