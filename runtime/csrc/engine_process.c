/* Tells processes apart, and owns contexts for runs. */
#include "engine_process.h"

#include <sys/mman.h>
#include <unistd.h>

#include "engine.h"
#include "engine_memory.h"
#include "internal.h"

#ifndef ADVICE_WIPE_ON_FORK    /* tests have a kernel without it */
#define ADVICE_WIPE_ON_FORK 18 /* include/uapi/asm-generic/mman-common.h */
#endif

/* In the same word as the run's process: a cancel comes before a run acquires the context, or that run sees it. */
static const uint64_t RUN_CANCELLED = (uint64_t)1 << 32;

static const int NO_ADVICE = -1;

MAVCG_PRIVATE struct process_state *create_process_state(bool *cleared) {
    size_t bytes = mapped_bytes(sizeof(struct process_state));
    void *state = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (state == MAP_FAILED) return NULL;
    /* An emulator may accept any advice and follow none (qemu-user before 7.2): a kernel is believed that refuses nonsense. */
    *cleared = madvise(state, bytes, NO_ADVICE) && !madvise(state, bytes, ADVICE_WIPE_ON_FORK);
    return state;
}

MAVCG_PRIVATE void free_process_state(struct process_state *state) {
    if (state) munmap(state, mapped_bytes(sizeof *state));
}

MAVCG_PRIVATE uint32_t this_process(const struct mavcg_context *context) {
    return context->cleared_in_child ? 1 : (uint32_t)getpid();
}

MAVCG_PRIVATE bool acquire_context(struct mavcg_context *context, uint32_t process) {
    uint64_t *run = &context->process->run, owner = 0;
    while (!__atomic_compare_exchange_n(run, &owner, process, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        if ((uint32_t)owner == process) return false;
    return true;
}

MAVCG_PRIVATE void release_context(struct mavcg_context *context) {
    __atomic_store_n(&context->process->run, 0, __ATOMIC_RELEASE);
}

MAVCG_PRIVATE void cancel_run(struct mavcg_context *context) {
    uint64_t *run = &context->process->run, owner = __atomic_load_n(run, __ATOMIC_RELAXED);
    while (owner &&
           !__atomic_compare_exchange_n(run, &owner, owner | RUN_CANCELLED, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
}

MAVCG_PRIVATE bool is_cancelled(const struct mavcg_context *context) {
    return (__atomic_load_n(&context->process->run, __ATOMIC_RELAXED) & RUN_CANCELLED) != 0;
}

struct library_of_address { /* Dl_info of <dlfcn.h>, which is a different header on every system */
    const char *file;
    void *base;
    const char *symbol;
    void *address;
};

enum { OPEN_NOW = 2, OPEN_IF_LOADED = 4 }; /* RTLD_NOW and RTLD_NOLOAD of glibc, musl and 64-bit bionic */

extern int dladdr(const void *address, struct library_of_address *library) MAVCG_WEAK_IMPORT;
extern void *dlopen(const char *file, int flags) MAVCG_WEAK_IMPORT;

MAVCG_PRIVATE void *keep_loaded(void) {
    struct library_of_address own;
    if (!dladdr || !dlopen || !unload_library || !dladdr(&run_table, &own)) return NULL;
    return dlopen(own.file, OPEN_NOW | OPEN_IF_LOADED);
}
