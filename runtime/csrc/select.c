/* The answer to a call that cannot be dispatched in line. */

/* The CPU we run on, or MAVCG_NO_CPU. */
MAVCG_STATIC int running_cpu(void) {
    uint64_t offset = rseq_offset();
    if (offset) {
        const char *rseq = (const char *)__builtin_thread_pointer() + offset;
        int32_t cpu = *(const volatile int32_t *)(rseq + MAVCG_RSEQ_CPU_ID);
        if (cpu >= 0) return cpu;
    }
    if (__atomic_load_n(&select_state.cpu_denied, __ATOMIC_RELAXED)) return MAVCG_NO_CPU;
    int cpu = ask_cpu();
    if (cpu < 0) __atomic_store_n(&select_state.cpu_denied, 1, __ATOMIC_RELAXED);
    return cpu < 0 ? MAVCG_NO_CPU : cpu;
}

/* The core of a CPU that was off, or that only its own registers can name, at its first use. */
MAVCG_RARE MAVCG_STATIC unsigned find_new_cpu(int cpu) {
    struct mavcg_table table = shared_table(__atomic_load_n(&select_state.trace, __ATOMIC_RELAXED));
    fill_table(&this_machine, &table, cpu);
    unsigned id = known_core(&table, (unsigned)cpu);
    if (id) return id;
    /* Nobody knows it, which stays so, unless it is only that we have been moved away while looking. */
    if (running_cpu() == cpu) store_core(&table, (unsigned)cpu, MAVCG_GENERIC, MAVCG_HOW_UNKNOWN, 0);
    return MAVCG_GENERIC;
}

MAVCG_STATIC unsigned running_core(void) {
    unsigned only = __atomic_load_n(&select_state.only_core, __ATOMIC_RELAXED);
    if (only) return only;
    int cpu = running_cpu();
    if (cpu < 0 || cpu >= MAVCG_CPUS) return MAVCG_GENERIC;
    unsigned id = __atomic_load_n(&core_of_cpu[cpu], __ATOMIC_RELAXED);
    return id ? id : find_new_cpu(cpu);
}

/* What versions[0] asks: the version to run now. Never fails: the generic version is always right. */
MAVCG_SHARED void *select_version(struct mavcg_function *function) {
    if (!__atomic_load_n(&select_state.ready, __ATOMIC_ACQUIRE)) start_selecting();
    unsigned id = running_core();
    if (__atomic_load_n(&select_state.trace, __ATOMIC_RELAXED) & TRACE_RUNS) count_run(&select_state, function, id);
    return function->versions[id];
}

/* First and last of the constructors and destructors that a program may number. A call may have been here before, so
 * early that glibc's references were not bound yet: the offset is published again. */
__attribute__((constructor(101))) static void start(void) {
    if (__atomic_load_n(&select_state.ready, __ATOMIC_ACQUIRE)) publish_rseq();
    else start_selecting();
}

__attribute__((destructor(101))) static void finish(void) {
    if (!(__atomic_load_n(&select_state.trace, __ATOMIC_RELAXED) & TRACE_RUNS)) return;
    if (!__atomic_exchange_n(&select_state.printed, 1, __ATOMIC_RELAXED)) print_all_runs(&select_state);
}
