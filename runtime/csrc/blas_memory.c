/* Keeps a few buffers for reuse. A call takes a buffer by an atomic exchange of its slot: there is no lock, so a fork
 * is safe at any time. */
#include "blas_memory.h"

#include <sys/mman.h>

#include "internal.h"

enum { KEPT_BUFFERS = 64, LARGE_PAGE = 2 << 20 };

static struct {
    uint32_t taken; /* 1 while a thread reads or writes the slot */
    struct blas_buffer buffer;
} kept[KEPT_BUFFERS];

static bool take_slot(uint32_t slot) { return !__atomic_exchange_n(&kept[slot].taken, 1, __ATOMIC_ACQUIRE); }

static void return_slot(uint32_t slot) { __atomic_store_n(&kept[slot].taken, 0, __ATOMIC_RELEASE); }

MAVCG_PRIVATE struct blas_buffer take_buffer(size_t bytes) {
    struct blas_buffer buffer = {NULL, 0};
    for (uint32_t slot = 0; slot < KEPT_BUFFERS; slot++) {
        if (!take_slot(slot)) continue;
        if (kept[slot].buffer.bytes >= bytes) {
            buffer = kept[slot].buffer;
            kept[slot].buffer = (struct blas_buffer){NULL, 0};
        }
        return_slot(slot);
        if (buffer.bytes) return buffer;
    }
    bytes = (bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return buffer;
    madvise(start, bytes, MADV_HUGEPAGE); /* huge pages: fewer TLB misses; a failure does no harm */
    return (struct blas_buffer){start, bytes};
}

MAVCG_PRIVATE void return_buffer(struct blas_buffer buffer) {
    for (uint32_t slot = 0; slot < KEPT_BUFFERS && buffer.bytes; slot++) {
        if (!take_slot(slot)) continue;
        if (kept[slot].buffer.bytes < buffer.bytes) { /* keep the larger buffer */
            struct blas_buffer smaller = kept[slot].buffer;
            kept[slot].buffer = buffer;
            buffer = smaller;
        }
        return_slot(slot);
    }
    if (buffer.bytes) munmap(buffer.start, buffer.bytes);
}
