/* CPUs, floating-point modes: what the engine asks the system and the processor for. */

enum { AFFINITY_WORDS = MAVCG_CPUS / 64 };

/* The CPUs that the calling thread may run on, by number, at most `room` of them; their count. 1 where a sandbox hides
 * them. */
static uint32_t allowed_cpus(uint16_t *cpus, uint32_t room) {
    static const uint32_t word_bits = 64;
    uint64_t mask[AFFINITY_WORDS] = {0};
    uint32_t found = 0;
    if (room) cpus[0] = 0;
    if (syscall(SYS_sched_getaffinity, 0, sizeof mask, mask) <= 0) return 1;
    for (uint32_t cpu = 0; cpu < MAVCG_CPUS; cpu++) {
        if (!(mask[cpu / word_bits] >> cpu % word_bits & 1)) continue;
        if (found < room) cpus[found] = (uint16_t)cpu;
        found++;
    }
    return found ? found : 1;
}

/* Tie the calling thread to these CPUs. Where the system does not allow that it stays free: no worse than before. */
static void stay_on(const uint16_t *cpus, uint32_t count) {
    uint64_t mask[AFFINITY_WORDS] = {0};
    for (uint32_t i = 0; i < count; i++) mask[cpus[i] / 64] |= (uint64_t)1 << cpus[i] % 64;
    syscall(SYS_sched_setaffinity, 0, sizeof mask, mask);
}

static uint32_t core_of(uint32_t cpu) {
    return __atomic_load_n(&MAVCG_NAME(core_of_cpu, MAVCG_SET)[cpu], __ATOMIC_RELAXED);
}

static int has_core(const struct engine_plan *plan, uint32_t core) {
    return plan->cores[core / CORE_WORD] >> core % CORE_WORD & 1;
}

/* Moves the CPUs of a plan's core types to the front, in their order; their count. */
static uint32_t cpus_of_plan(const struct engine_plan *plan, uint16_t *cpus, uint32_t count) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        if (has_core(plan, core_of(cpus[i]))) cpus[found++] = cpus[i];
    return found;
}

/* Whether these CPUs are enough for a plan's threads, and some of them are of each of its core types. */
static int plan_fits(const struct engine_plan *plan, const uint16_t *cpus, uint32_t count) {
    uint64_t lacking[CORE_IDS / CORE_WORD];
    uint32_t found = 0, lacks = 0;
    memcpy(lacking, plan->cores, sizeof lacking);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t core = core_of(cpus[i]);
        if (!has_core(plan, core)) continue;
        lacking[core / CORE_WORD] &= ~((uint64_t)1 << core % CORE_WORD);
        found++;
    }
    for (int word = 0; word < CORE_IDS / CORE_WORD; word++) lacks |= lacking[word] != 0;
    return !lacks && found >= plan->threads;
}

/* Rounding direction, denormals, traps: MXCSR without its sticky flags, or FPCR. A run takes its caller's on every
 * thread, else one result could come from two modes. */
static uint32_t float_mode(void) {
#if defined(__x86_64__)
    return __builtin_ia32_stmxcsr() & ~(uint32_t)0x3F;
#elif defined(__aarch64__)
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return (uint32_t)mode;
#endif
}

static void set_float_mode(uint32_t mode) {
    if (mode == float_mode()) return;
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(mode);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)mode));
#endif
}

/* Whether this processor has what every version of every kernel needs (x86.c), which stands in the place of the first
 * core's needs. */
static int processor_will_do(void) {
#if defined(__x86_64__)
    static const struct mavcg_set base = {.x86_needs = base_needs};
    return x86_can_run(&base, MAVCG_FIRST_CORE);
#else
    return 1;
#endif
}
