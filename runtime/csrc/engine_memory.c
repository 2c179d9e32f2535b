/* Allocates memory of a context. */
#include "engine_memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "internal.h"

enum { LARGE_PAGE = 1 << 21, SMALL_PAGES = 1 << 16 /* the largest that a system has, or a multiple of them */ };

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
