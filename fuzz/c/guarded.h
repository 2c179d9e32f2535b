/* What C targets share: numbers of the input, and arrays between pages that nobody may touch, for code that sanitizers do
 * not see. */
#ifndef FUZZ_GUARDED_H
#define FUZZ_GUARDED_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct bytes {
    const uint8_t *at, *end;
};

/* The next bytes as a number, the first one highest; 0 for those that are missing. */
static inline uint64_t next(struct bytes *in, unsigned count) {
    uint64_t value = 0;
    for (; count; count--) value = value << 8 | (in->at < in->end ? *in->at++ : 0);
    return value;
}

static inline void need(int condition) {
    if (!condition) abort();
}

/* Memory between two pages that cannot be accessed. */
struct guarded {
    char *begin;
    size_t bytes;
};

static inline struct guarded guarded_memory(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    char *all = mmap(NULL, whole + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(all != MAP_FAILED && !mprotect(all, page, PROT_NONE) && !mprotect(all + page + whole, page, PROT_NONE));
    return (struct guarded){all + page, whole};
}

/* An array in it, which ends where the memory does, or begins where it does. */
static inline void *array_in(struct guarded memory, size_t bytes, int at_end) {
    need(bytes <= memory.bytes);
    return at_end ? memory.begin + memory.bytes - bytes : memory.begin;
}

#endif
