/* Waits for a word in memory to change: polls it for a while, then sleeps in the kernel (futex). */
#include "engine_wait.h"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

enum { ALONE_NS = 5000, POLLS_PER_CLOCK = 32 };

MAVCG_PRIVATE uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline void relax(void) {
#if defined(__x86_64__)
    __asm__ volatile("pause");
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* `yield` has no effect on most cores; isb waits for some 10 ns */
#endif
}

MAVCG_PRIVATE bool spin_until_change(const uint32_t *word, uint32_t value, uint64_t spin_ns) {
    if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) return true;
    if (!spin_ns) return false;
    uint64_t start = now_ns(), waited = 0;
    do {
        if (waited > ALONE_NS) sched_yield(); /* the awaited thread may need this very CPU */
        for (int polls = 0; polls < POLLS_PER_CLOCK; polls++) {
            relax();
            if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) return true;
        }
        waited = now_ns() - start;
    } while (waited < spin_ns);
    return false;
}

enum { FUTEX_WAIT_PRIVATE = 0 | 128, FUTEX_WAKE_PRIVATE = 1 | 128 }; /* include/uapi/linux/futex.h */

MAVCG_PRIVATE void sleep_while(uint32_t *word, uint32_t value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL);
}

MAVCG_PRIVATE void wake(uint32_t *word, uint32_t sleepers) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, sleepers); }
