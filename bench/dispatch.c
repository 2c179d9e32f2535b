/* What choosing a version costs a call. Prints, per way of choosing, the nanoseconds per call of every round: one round
 * runs each way once, so that they all meet the same disturbances.
 *
 * Each way is a function f(x) that ends in a jump to the version that runs; `direct` is that version itself. The calls
 * depend on each other, so that the whole way is on the clock. SET: the core set's tag; CORE: its first core's name,
 * which CPU 0 is told to be; the program runs there. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "mavcg_runtime.h"

MAVCG_DECLARE(SET)
#define select_for_set MAVCG_NAME(select, SET)
#define version_for_set MAVCG_NAME(version, SET)
#define core_of_cpu MAVCG_NAME(core_of_cpu, SET)

typedef uint64_t version(uint64_t x);

#define NOT_INLINE __attribute__((noinline, noclone))

static version slow;
NOT_INLINE static uint64_t version_generic(uint64_t x) { return x + 1; }
NOT_INLINE static uint64_t version_a(uint64_t x) { return x + 2; }
NOT_INLINE static uint64_t version_b(uint64_t x) { return x + 3; }

/* The function that mavcg built, and the version of it that its dispatcher runs here. */
extern version bench_popcount;
extern version bench_popcount_direct __asm__("bench_popcount." CORE);

static void *const versions[] = {(void *)slow, (void *)version_generic, (void *)version_a, (void *)version_b};
static uint64_t runs[4];
static struct mavcg_function function = {"f", versions, runs, NULL};

/* What a dispatcher does in line: rseq, or versions[0] where there is none. */
NOT_INLINE static uint64_t dispatched(uint64_t x) { return ((version *)version_for_set(&function))(x); }

NOT_INLINE static uint64_t slow(uint64_t x) { return ((version *)select_for_set(&function))(x); }

/* Choosing by a system call each time, as getcpu is one on aarch64. */
NOT_INLINE static uint64_t by_system_call(uint64_t x) {
    unsigned cpu = 0;
    syscall(SYS_getcpu, &cpu, NULL, NULL);
    return ((version *)versions[core_of_cpu[cpu % MAVCG_CPUS]])(x);
}

#if defined(__x86_64__)
/* Choosing by what the CPU says of itself: CPUID leaf 1AH, which traps to the hypervisor in a virtual machine as the
 * kernel traps `mrs MIDR_EL1` on aarch64. Without hybrid cores the answer is 0 at the same price. */
NOT_INLINE static uint64_t by_register(uint64_t x) {
    uint32_t a = 0x1A, b, c = 0, d;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return ((version *)versions[a >> 24 == 0x20 ? 2 : a >> 24 == 0x40 ? 3 : 1])(x);
}
#elif defined(__aarch64__)
/* Choosing by what the CPU says of itself: the kernel traps and emulates the read. */
NOT_INLINE static uint64_t by_register(uint64_t x) {
    uint64_t midr;
    __asm__ volatile("mrs %0, MIDR_EL1" : "=r"(midr));
    return ((version *)versions[(midr >> 4 & 0xFFF) == 0xD05 ? 2 : 1])(x);
}
#endif

static const struct {
    const char *name;
    version *call;
    unsigned calls; /* a round's share: some 0.2 ms each */
} ways[] = {
    {"direct_generated", bench_popcount_direct, 100000},
    {"generated", bench_popcount, 100000},
    {"direct", version_a, 100000},
    {"dispatched", dispatched, 100000},
    {"runtime_select", slow, 20000},
    {"system_call", by_system_call, 2000},
    {"trapping_register", by_register, 200},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

static double nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

NOT_INLINE static double time_per_call(int way) {
    version *volatile call = ways[way].call; /* an indirect call for all of them alike */
    version *f = call;
    uint64_t x = 0;
    double start = nanoseconds();
    for (unsigned i = 0; i < ways[way].calls; i++) x = f(x);
    double spent = nanoseconds() - start;
    if (x == 1) puts(""); /* x is needed */
    return spent / ways[way].calls;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 200;
    for (int way = 0; way < WAYS; way++) time_per_call(way); /* warm */
    printf("rseq %d\n", MAVCG_NAME(rseq_offset, SET) != 0);
    for (int round = 0; round < rounds; round++)
        for (int way = 0; way < WAYS; way++) printf("%s %.4f\n", ways[way].name, time_per_call(way));
    return 0;
}
