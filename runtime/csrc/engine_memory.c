/* Allocates the memory of a context. */
#include "engine_memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "internal.h"

#ifndef ADVICE_WIPE_ON_FORK    /* tests emulate a kernel without it */
#define ADVICE_WIPE_ON_FORK 18 /* include/uapi/asm-generic/mman-common.h */
#endif

static const int NO_ADVICE = -1;

enum { LARGE_PAGE = 1 << 21, SMALL_PAGES = 1 << 16 /* SMALL_PAGES: a multiple of any system's base page */ };

MAVCG_PRIVATE void *aligned_bytes(size_t bytes, size_t align) {
    void *memory = NULL;
    return posix_memalign(&memory, align, bytes ? bytes : align) ? NULL : memory;
}

MAVCG_PRIVATE size_t mapped_bytes(size_t bytes) { return (bytes + SMALL_PAGES - 1) / SMALL_PAGES * SMALL_PAGES; }

MAVCG_PRIVATE void *working_bytes(size_t bytes, size_t align) {
    if (bytes < LARGE_PAGE) return aligned_bytes(bytes, align);
    size_t used = mapped_bytes(bytes);
    char *memory = mmap(NULL, used + LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    size_t before = -(uintptr_t)memory % LARGE_PAGE;
    if (before) munmap(memory, before);
    munmap(memory + before + used, LARGE_PAGE - before);
    madvise(memory + before, used, MADV_HUGEPAGE);
    return memory + before;
}

MAVCG_PRIVATE void free_working(void *memory, size_t bytes) {
    if (bytes < LARGE_PAGE) free(memory);
    else if (memory) munmap(memory, mapped_bytes(bytes));
}

MAVCG_PRIVATE void *child_cleared_bytes(size_t bytes, bool *cleared) {
    size_t used = mapped_bytes(bytes);
    void *memory = mmap(NULL, used, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    /* An emulator may accept any advice and follow none (qemu-user before 7.2), so probe with invalid advice first:
     * only a kernel that rejects it is trusted. */
    *cleared = madvise(memory, used, NO_ADVICE) && !madvise(memory, used, ADVICE_WIPE_ON_FORK);
    return memory;
}

MAVCG_PRIVATE void free_child_cleared(void *memory, size_t bytes) {
    if (memory) munmap(memory, mapped_bytes(bytes));
}
