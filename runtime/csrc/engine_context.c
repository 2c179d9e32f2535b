/* A context: what it is made of, once. */

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

/* Pointers of the operands that stay where they are. */
static void resolve(struct mavcg_context *context) {
    for (uint32_t i = 0; i < OPERANDS; i++) {
        const struct engine_operand *operand = &operand_table[i];
        if (operand->base == IN_ARENA) context->operands[i] = context->arena + operand->offset;
        else if (operand->base == IN_CONSTANTS) context->operands[i] = (void *)(MAVCG_CONSTANTS + operand->offset);
    }
}

static void free_context(struct mavcg_context *context) {
    free(context->pool.threads);
    free(context->operands);
    free_working(context->scratch, context->threads * (size_t)SCRATCH_STRIDE);
    free_working(context->arena, ARENA_BYTES);
    free(context);
}

static uint32_t most_grains(void) {
    uint32_t most = 1;
    for (uint32_t i = 0; i < STEPS; i++) most = grains_of(&run_table[i]) > most ? grains_of(&run_table[i]) : most;
    return most;
}

/* The plan that is predicted to be the fastest of those that these CPUs allow; NULL when none is. The table has the
 * fastest first, and ends with one of no threads. */
static const struct engine_plan *fitting_plan(const uint16_t *cpus, uint32_t count) {
    core_here(); /* sees to it that core types are known */
    for (const struct engine_plan *plan = plan_table; plan->threads; plan++)
        if (plan_fits(plan, cpus, count)) return plan;
    return NULL;
}

static int create_context(const mavcg_options *options, struct mavcg_context **made) {
    static const mavcg_options usual = {DEFAULT_THREADS, 0, {0, 0}};
    if (!made) return MAVCG_ERROR_NULL;
    *made = NULL;
    if (!options) options = &usual;
    if (options->threads < 0 || options->threads > MAX_THREADS || options->flags & ~(uint32_t)MAVCG_PIN ||
        options->reserved[0] || options->reserved[1])
        return MAVCG_ERROR_OPTION;
    if (!processor_will_do()) return MAVCG_ERROR_CPU;
    uint16_t list[MAX_THREADS];
    uint32_t cpus = allowed_cpus(list, MAX_THREADS), threads = (uint32_t)options->threads;
    uint32_t listed = cpus < MAX_THREADS ? cpus : MAX_THREADS;
    const struct engine_plan *plan = threads ? NULL : fitting_plan(list, listed);
    if (!threads) threads = plan ? plan->threads : listed;
    if (threads > most_grains()) threads = most_grains(); /* more would never find rows */
    struct mavcg_context *context = aligned_bytes(sizeof *context, _Alignof(struct mavcg_context));
    if (!context) return MAVCG_ERROR_MEMORY;
    memset(context, 0, sizeof *context);
    context->threads = threads;
    context->flags = options->flags;
    context->plan = plan;
    context->pool.spin = threads <= cpus; /* else looking takes the CPU from who is looked for */
    context->arena = working_bytes(ARENA_BYTES, ARENA_ALIGN);
    context->scratch = working_bytes(threads * (size_t)SCRATCH_STRIDE, SCRATCH_ALIGN);
    context->operands = calloc(OPERANDS + 1, sizeof *context->operands);
    context->pool.threads = calloc(threads, sizeof *context->pool.threads);
    if (!context->arena || !context->scratch || !context->operands || !context->pool.threads) {
        free_context(context);
        return MAVCG_ERROR_MEMORY;
    }
    resolve(context);
    *made = context;
    return MAVCG_OK;
}

static void destroy_context(struct mavcg_context *context) {
    if (!context) return;
    if (context->pool.process == (uint32_t)getpid()) stop_workers(&context->pool);
    free_context(context);
}
