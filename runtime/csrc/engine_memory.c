/* Memory of a context. */

static void *aligned_bytes(size_t bytes, size_t align) {
    void *place = NULL;
    return posix_memalign(&place, align, bytes ? bytes : align) ? NULL : place;
}

/* Memory that steps go through again and again is asked for in large pages, which begin where it begins: a step on 36
 * planes of tiles is in more small pages at a time than a core has at hand. It is a mapping of its own, since malloc would
 * give the same place to others later. A system without large pages gives small ones; less than one comes from malloc. */
enum { LARGE_PAGE = 1 << 21, SMALL_PAGES = 1 << 16 /* the largest that a system has, or a multiple of them */ };

static size_t mapped_bytes(size_t bytes) { return (bytes + SMALL_PAGES - 1) / SMALL_PAGES * SMALL_PAGES; }

static void *working_bytes(size_t bytes, size_t align) {
    if (bytes < LARGE_PAGE) return aligned_bytes(bytes, align);
    size_t used = mapped_bytes(bytes);
    char *place = mmap(NULL, used + LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) return NULL;
    size_t before = -(uintptr_t)place % LARGE_PAGE;
    if (before) munmap(place, before);
    munmap(place + before + used, LARGE_PAGE - before);
    madvise(place + before, used, MADV_HUGEPAGE);
    return place + before;
}

static void free_working(void *place, size_t bytes) {
    if (bytes < LARGE_PAGE) free(place);
    else if (place) munmap(place, mapped_bytes(bytes));
}
