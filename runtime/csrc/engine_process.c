/* Identifies processes, and gives a run exclusive use of a context. */
#include "engine_process.h"

#include <unistd.h>

#include "engine.h"
#include "engine_memory.h"
#include "internal.h"

/* This flag shares a word with the run's process, so that a cancel either precedes the run, or is seen by it. */
static const uint64_t RUN_CANCELLED = (uint64_t)1 << 32;

MAVCG_PRIVATE struct process_state *create_process_state(bool *cleared) {
    return child_cleared_bytes(sizeof(struct process_state), cleared);
}

MAVCG_PRIVATE void free_process_state(struct process_state *state) { free_child_cleared(state, sizeof *state); }

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
