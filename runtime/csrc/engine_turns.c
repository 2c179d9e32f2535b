/* Mutual exclusion of networks that share memory: only one of them runs at a time. */
#include "engine_turns.h"

#include <unistd.h>

#include "internal.h"

enum { TAKEN_PROCESS = 32 };

/* Return the process part of *taken for the calling process. */
static uint64_t taken_by_this_process(const struct shared_memory *memory) {
    return (uint64_t)(memory->cleared_in_child ? 1 : (uint32_t)getpid()) << TAKEN_PROCESS;
}

MAVCG_PRIVATE bool take_turn(const struct shared_memory *memory) {
    if (!memory) return true;
    uint64_t process = taken_by_this_process(memory), taken = __atomic_load_n(memory->taken, __ATOMIC_RELAXED), next;
    do {
        uint32_t running = taken >> TAKEN_PROCESS == process >> TAKEN_PROCESS ? (uint32_t)taken : 0;
        if (running & memory->conflicts_with) return false;
        next = process | running | memory->own;
    } while (!__atomic_compare_exchange_n(memory->taken, &taken, next, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
    return true;
}

MAVCG_PRIVATE void end_turn(const struct shared_memory *memory) {
    if (memory) __atomic_and_fetch(memory->taken, ~(uint64_t)memory->own, __ATOMIC_RELEASE);
}
