/* Kernels as an emitter would make them, in C. Compiled once per version: LABEL names it, VERSION is its id. */
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

enum { LENGTH = 1000, SCRATCH = 4096 }; /* as in conftest.py */

#define KERNEL(name)                                                                                        \
    void name(void *const *operands, int64_t begin, int64_t end, void *scratch) __asm__(#name "_1." LABEL); \
    void name(void *const *operands, int64_t begin, int64_t end, void *scratch)

/* out[i] = in[last - i] / 2 + w[i]: each row needs rows of the step before that another thread may have made. */
KERNEL(chain) {
    const float *in = operands[0], *w = operands[1];
    float *out = operands[2];
    (void)scratch;
    for (int64_t i = begin; i < end; i++) out[i] = in[LENGTH - 1 - i] * 0.5f + w[i];
}

#ifndef LACKS_WHO
/* The version that made each row, which takes it about a microsecond: time to be moved to another CPU in between. */
KERNEL(who) {
    int32_t *out = operands[0];
    (void)scratch;
    for (int64_t i = begin; i < end; i++) {
        for (volatile int turn = 0; turn < 300;) turn++;
        out[i] = VERSION;
    }
}
#endif

/* The floating-point mode that each row was made in. */
KERNEL(modes) {
    uint32_t *out = operands[0];
    (void)scratch;
    for (int64_t i = begin; i < end; i++) {
#if defined(__x86_64__)
        out[i] = __builtin_ia32_stmxcsr() & ~0x3Fu;
#else
        uint64_t mode;
        __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
        out[i] = (uint32_t)mode;
#endif
    }
}

/* Whether the scratch was this thread's own while a row was made, and lay well. */
KERNEL(intact) {
    uint8_t *out = operands[0];
    for (int64_t i = begin; i < end; i++) {
        unsigned char *bytes = scratch;
        memset(bytes, (int)i, SCRATCH);
        sched_yield();
        out[i] = (uintptr_t)scratch % 64 == 0;
        for (int at = 0; at < SCRATCH; at++) out[i] &= bytes[at] == (unsigned char)i;
    }
}

/* Sleeps so many milliseconds. */
KERNEL(nap) {
    const int32_t *ms = operands[0];
    int32_t *out = operands[1];
    (void)scratch;
    struct timespec time = {ms[0] / 1000, ms[0] % 1000 * 1000000L};
    if (ms[0]) nanosleep(&time, NULL);
    for (int64_t i = begin; i < end; i++) out[i] = ms[0];
}

/* The rows of the call that made each row. */
KERNEL(spans) {
    int32_t *out = operands[0];
    (void)scratch;
    for (int64_t i = begin; i < end; i++) out[i] = (int32_t)(end - begin);
}
