/* Which process the worker threads and a run belong to, and how long the library stays loaded.
 *
 * A forked child has a copy of every context and none of the parent's threads. What says that threads are there, or that a
 * run is under way, therefore lies in a page that the kernel clears in the child (MADV_WIPEONFORK, Linux 4.14), whoever
 * made it: fork, clone without libc's handlers, or clone into a PID namespace where its number is the parent's. A child
 * that shares its parent's memory (vfork) shares threads and page alike. Where the kernel does not clear it, processes are
 * told apart by number. */

#ifndef ADVICE_WIPE_ON_FORK /* tests have a kernel without it */
#define ADVICE_WIPE_ON_FORK 18 /* include/uapi/asm-generic/mman-common.h */
#endif

/* The state of a context that its process alone has; all zero: no threads, no run. */
struct process_state {
    uint64_t run;     /* the process whose thread is in run, 0 for none, and RUN_CANCELLED */
    uint32_t workers; /* the process whose worker threads are running; 0: none are */
    uint32_t running; /* how many of them */
};

/* In the same word as who runs: a cancel comes before a run takes the context, or it is seen by that run. */
static const uint64_t RUN_CANCELLED = (uint64_t)1 << 32;

static const int NO_ADVICE = -1;

/* NULL: no memory. cleared: whether a child finds it all zero. */
static struct process_state *make_process_state(uint32_t *cleared) {
    size_t bytes = mapped_bytes(sizeof(struct process_state));
    void *state = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (state == MAP_FAILED) return NULL;
    /* Emulators may accept any advice and follow none (qemu-user before 7.2): believed is who refuses nonsense. */
    *cleared = madvise(state, bytes, NO_ADVICE) && !madvise(state, bytes, ADVICE_WIPE_ON_FORK);
    return state;
}

static void free_process_state(struct process_state *state) {
    if (state) munmap(state, mapped_bytes(sizeof *state));
}

/* The calling process, as the page names it. */
static uint32_t this_process(const struct mavcg_context *context) {
    return context->cleared_in_child ? 1 : (uint32_t)getpid();
}

/* A context is owned by one run at a time. What a thread of another process owned has no owner here. */
static int take(struct mavcg_context *context, uint32_t process) {
    uint64_t *run = &context->process->run, owner = 0;
    while (!__atomic_compare_exchange_n(run, &owner, process, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        if ((uint32_t)owner == process) return 0;
    return 1;
}

static void give_back(struct mavcg_context *context) {
    __atomic_store_n(&context->process->run, 0, __ATOMIC_RELEASE);
}

/* The run that is under way ends before its next step; where there is none, nothing is kept for a later one. */
static void cancel_run(struct mavcg_context *context) {
    uint64_t *run = &context->process->run, owner = __atomic_load_n(run, __ATOMIC_RELAXED);
    while (owner &&
           !__atomic_compare_exchange_n(run, &owner, owner | RUN_CANCELLED, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

static int is_cancelled(const struct mavcg_context *context) {
    return (__atomic_load_n(&context->process->run, __ATOMIC_RELAXED) & RUN_CANCELLED) != 0;
}

/* Threads that sleep in a library, or a pointer into it, must not outlive its code: every context keeps its library loaded,
 * as a second dlopen would. Weak: a static program has no such functions, and no dlclose either. */
struct library_of_address { /* Dl_info of <dlfcn.h>, which is another header on every system */
    const char *file;
    void *base;
    const char *symbol;
    void *address;
};

enum { OPEN_NOW = 2, OPEN_IF_LOADED = 4 }; /* RTLD_NOW and RTLD_NOLOAD of glibc, musl and 64-bit bionic */

extern int dladdr(const void *address, struct library_of_address *library) MAVCG_IF_THERE;
extern void *dlopen(const char *file, int flags) MAVCG_IF_THERE;
extern void unload_library(void *library) __asm__("dlclose") MAVCG_IF_THERE;

/* What unload_library gives back; NULL where this is not a library, or not one that can be unloaded. */
static void *keep_loaded(void) {
    struct library_of_address here;
    if (!dladdr || !dlopen || !unload_library || !dladdr(&run_table, &here)) return NULL;
    return dlopen(here.file, OPEN_NOW | OPEN_IF_LOADED);
}
