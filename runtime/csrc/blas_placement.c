/* Keeps a thread off the CPU of the thread that it works for.
 *
 * A thread that is woken while the other CPUs are busy for a moment may be placed on its caller's CPU. There it polls,
 * and finds no rows left whenever it runs. Linux moves no thread that ran within the last half millisecond, so both may
 * stay on one CPU for seconds while another one is idle. */
#include "blas_placement.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "engine_machine.h"
#include "engine_wait.h"
#include "internal.h"

/* BESIDE_NS: a thread polls so long before it asks where it runs. STAYS_NS: least time between two moves; if all CPUs
 * are busy, the kernel may have reasons to move it back. */
enum { BESIDE_NS = 5000, STAYS_NS = 10000000, WORD_BITS = 64 };

MAVCG_PRIVATE uint32_t running_cpu(void) {
    unsigned cpu = 0;
    return syscall(SYS_getcpu, &cpu, NULL, NULL) ? UNKNOWN_CPU : cpu;
}

/* Move the calling thread to another CPU that it may run on. Returns false if there is none. */
static bool leave_cpu(uint32_t cpu) {
    uint64_t allowed[AFFINITY_WORDS] = {0}, others[AFFINITY_WORDS], any = 0;
    if (syscall(SYS_sched_getaffinity, 0, sizeof allowed, allowed) <= 0) return false;
    for (uint32_t word = 0; word < AFFINITY_WORDS; word++) {
        others[word] = allowed[word];
        if (word == cpu / WORD_BITS) others[word] &= ~((uint64_t)1 << cpu % WORD_BITS);
        any |= others[word];
    }
    if (!any || syscall(SYS_sched_setaffinity, 0, sizeof others, others)) return false;
    syscall(SYS_sched_setaffinity, 0, sizeof allowed, allowed);
    return true;
}

MAVCG_PRIVATE bool spin_apart(const uint32_t *word, uint32_t value, uint64_t spin_ns,
                              struct blas_placement *placement) {
    if (spin_ns <= BESIDE_NS) return spin_until_change(word, value, spin_ns);
    if (spin_until_change(word, value, BESIDE_NS)) return true;
    const uint32_t cpu = __atomic_load_n(placement->caller_cpu, __ATOMIC_RELAXED);
    if (cpu < MAVCG_CPUS && cpu == running_cpu()) {
        uint64_t now = now_ns();
        if (now - placement->moved_ns > STAYS_NS && leave_cpu(cpu)) placement->moved_ns = now;
    }
    return spin_until_change(word, value, spin_ns - BESIDE_NS);
}
