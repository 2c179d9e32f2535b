/* Maps and releases pages of constants, and prefetches others, as a table says. */
#include "engine_paging.h"

#include <sys/mman.h>

#include "engine.h"

#if PAGED

enum {
    GRANULE = 1 << 16,    /* of mavcg/apps/weight_paging.py: whole ones are released */
    ADVICE_MAP_READ = 22, /* MADV_POPULATE_READ, from Linux 5.14 on; include/uapi/asm-generic/mman-common.h */
};

MAVCG_PRIVATE void page_weights(uint32_t phase) {
    static const int advice[] = {MADV_DONTNEED, ADVICE_MAP_READ, MADV_WILLNEED};
    for (const struct engine_pages *pages = page_table; pages->phase <= phase; pages++) {
        if (pages->phase != phase) continue;
        uintptr_t begin = (uintptr_t)MAVCG_CONSTANTS + pages->begin, end = (uintptr_t)MAVCG_CONSTANTS + pages->end;
        bool whole = pages->advice == PAGES_RELEASE;
        begin = (begin + (whole ? GRANULE - 1 : 0)) / GRANULE * GRANULE;
        if (whole) end = end / GRANULE * GRANULE;
        /* Only time is lost where the kernel refuses: the pages are those of a file, which nothing has written to. */
        if (begin < end) madvise((void *)begin, end - begin, advice[pages->advice]);
    }
}

#else

MAVCG_PRIVATE void page_weights(uint32_t phase) { (void)phase; }

#endif
