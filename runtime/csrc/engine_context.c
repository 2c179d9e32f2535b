/* A context: what it is made of, once. */

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
    free_process_state(context->process);
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
    context->process = make_process_state(&context->cleared_in_child);
    if (!context->arena || !context->scratch || !context->operands || !context->pool.threads || !context->process) {
        free_context(context);
        return MAVCG_ERROR_MEMORY;
    }
    resolve(context);
    context->library = keep_loaded();
    *made = context;
    return MAVCG_OK;
}

/* Gives what unload_library takes, or NULL. */
static void *destroy_context(struct mavcg_context *context) {
    if (!context) return NULL;
    void *library = context->library;
    if (context->process->workers == this_process(context)) stop_workers(context);
    free_context(context);
    return library;
}
