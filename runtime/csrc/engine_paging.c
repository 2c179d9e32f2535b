/* Maps and releases pages of constants, as a table says. */
#include "engine_paging.h"

#include <sys/mman.h>
#include <unistd.h>

#include "engine.h"
#include "engine_wait.h"
#include "internal.h"

#if PAGED

enum pager_work { NO_WORK, WORK_LEFT, WORK_TAKEN };

enum {
    GRANULE = 1 << 16,    /* of mavcg/apps/weight_paging.py: whole ones are released */
    LEAST_PAGE = 1 << 12, /* of any system */
    ADVICE_MAP_READ = 22, /* MADV_POPULATE_READ, from Linux 5.14 on; include/uapi/asm-generic/mman-common.h */
};

/* Map pages, as a read of each does, which also reads ahead what is not in the page cache. MADV_WILLNEED would read it
 * into single pages, which take longer to map each time, and takes time where all is there. */
static void map_pages(uintptr_t begin, uintptr_t end) {
    uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE); /* madvise refuses an address within a page */
    uintptr_t page = begin / page_bytes * page_bytes;
    if (!madvise((void *)page, end - page, ADVICE_MAP_READ)) return;
    for (uintptr_t at = begin; at < end; at += LEAST_PAGE) (void)*(const volatile char *)at;
    (void)*(const volatile char *)(end - 1);
}

/* Do what a row says. Where the kernel refuses to release pages they stay, which changes no result: they are those of a
 * file, which nothing has written to. */
static void advise(const struct engine_pages *pages) {
    uintptr_t begin = (uintptr_t)MAVCG_CONSTANTS + pages->begin, end = (uintptr_t)MAVCG_CONSTANTS + pages->end;
    if (pages->advice == PAGES_MAP) {
        map_pages(begin, end);
        return;
    }
    begin = (begin + GRANULE - 1) / GRANULE * GRANULE;
    end = end / GRANULE * GRANULE;
    if (begin < end) madvise((void *)begin, end - begin, MADV_DONTNEED);
}

static void advise_rows(uint32_t first, uint32_t last) {
    for (uint32_t row = first; row < last; row++) advise(&page_table[row]);
}

MAVCG_PRIVATE void help_paging(struct mavcg_context *context) {
    struct engine_pager *pager = &context->pager;
    uint32_t work = WORK_LEFT;
    if (__atomic_load_n(&pager->work, __ATOMIC_RELAXED) != WORK_LEFT ||
        !__atomic_compare_exchange_n(&pager->work, &work, WORK_TAKEN, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    advise_rows(pager->first, pager->last);
    __atomic_store_n(&pager->work, NO_WORK, __ATOMIC_RELEASE);
    wake(&pager->work, 1);
}

/* End the work that was left to workers: take it back if none has it, or wait. Returns true if it was taken back. */
static bool take_back(struct mavcg_context *context) {
    uint32_t *work = &context->pager.work, left = WORK_LEFT;
    if (__atomic_compare_exchange_n(work, &left, NO_WORK, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) return true;
    if (left == WORK_TAKEN && !spin_until_change(work, WORK_TAKEN, context->pool.spin_ns))
        while (__atomic_load_n(work, __ATOMIC_ACQUIRE) == WORK_TAKEN) sleep_while(work, WORK_TAKEN);
    return false;
}

/* Do the rows of one phase, the next ones, after those that were left to workers. */
static void begin_group(struct mavcg_context *context) {
    struct engine_pager *pager = &context->pager;
    uint32_t first = pager->next, beside, last, phase = page_table[first].phase;
    for (last = first; page_table[last].phase == phase; last++) {}
    for (beside = first; beside < last && page_table[beside].advice < PAGES_RELEASE_BESIDE; beside++) {}
    if (take_back(context)) advise_rows(pager->first, pager->last);
    pager->next = last;
    if (context->threads == 1) beside = last;
    advise_rows(first, beside);
    if (beside == last) return;
    pager->first = beside;
    pager->last = last;
    __atomic_store_n(&pager->work, WORK_LEFT, __ATOMIC_RELEASE);
}

MAVCG_PRIVATE void begin_paging(struct mavcg_context *context) {
    context->pager.next = 0;
    /* In a forked child, that of a run of its parent may be left. A worker of the run before may still read it. */
    __atomic_store_n(&context->pager.work, NO_WORK, __ATOMIC_RELAXED);
}

MAVCG_PRIVATE void page_weights(struct mavcg_context *context, uint32_t phase) {
    while (page_table[context->pager.next].phase <= phase) begin_group(context);
}

MAVCG_PRIVATE void end_paging(struct mavcg_context *context) { take_back(context); }

#else

MAVCG_PRIVATE void begin_paging(struct mavcg_context *context) { (void)context; }
MAVCG_PRIVATE void page_weights(struct mavcg_context *context, uint32_t phase) { (void)context, (void)phase; }
MAVCG_PRIVATE void help_paging(struct mavcg_context *context) { (void)context; }
MAVCG_PRIVATE void end_paging(struct mavcg_context *context) { (void)context; }

#endif
