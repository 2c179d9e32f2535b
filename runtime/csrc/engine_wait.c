/* Waiting for a word in memory to change: looking for a while, then sleeping in the kernel (futex). */

enum { SPIN_NS = 50000, ALONE_NS = 5000, LOOKS_PER_CLOCK = 32 };

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline void relax(void) {
#if defined(__x86_64__)
    __asm__ volatile("pause");
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* `yield` does nothing on most cores; this lets some 10 ns pass */
#endif
}

/* Whether the word has left `value`, after a look or some 50 us of them. */
static int changes_soon(const uint32_t *word, uint32_t value, int spin) {
    if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) return 1;
    if (!spin) return 0;
    uint64_t start = now_ns(), waited = 0;
    do {
        if (waited > ALONE_NS) sched_yield(); /* the one who is waited for may be waiting for this very CPU */
        for (int looks = 0; looks < LOOKS_PER_CLOCK; looks++) {
            relax();
            if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) return 1;
        }
        waited = now_ns() - start;
    } while (waited < SPIN_NS);
    return 0;
}

enum { FUTEX_WAIT_PRIVATE = 0 | 128, FUTEX_WAKE_PRIVATE = 1 | 128 }; /* include/uapi/linux/futex.h */

/* Returns when woken, when the word is not `value`, and sometimes for no reason: callers look again. */
static void sleep_while(uint32_t *word, uint32_t value) { syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL); }

static void wake(uint32_t *word, uint32_t sleepers) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, sleepers); }
