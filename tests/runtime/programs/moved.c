/* A board whose CPU 0 is a Core or a Cortex-A55 and CPU 1 an Atom or a Cortex-A75, which only their registers say. While
 * they are read the thread is moved to the other CPU, so many times as each argument says: prints the version that
 * which() runs then, and those of CPU 0 and CPU 1 afterwards. */
#include "versioned.h"

static int moves;

static int cpu_after_move(void) {
    if (moves > 0) {
        moves--;
        run_on(1 - sched_getcpu());
    }
    return sched_getcpu();
}

uint32_t midr_of_board(void) { return cpu_after_move() ? 0x413FD0A1 : 0x412FD050; }

uint32_t cpuid_of_board(uint32_t leaf, uint32_t subleaf, int wanted) {
    enum { EAX, EBX, ECX, EDX };
    (void)subleaf;
    if (leaf == 0) return wanted == EAX ? 0x20 : wanted == EBX ? 0x756E6547 : 0;
    if (leaf == 1) return wanted == EAX ? 0x906A3 : 0;
    if (leaf == 7) return wanted == EDX ? 1u << 15 : 0;
    if (leaf == 0x1A) return wanted == EAX ? (cpu_after_move() ? 0x20000001u : 0x40000001u) : 0;
    return 0;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        table_of_set[0] = table_of_set[1] = 0;
        run_on(0);
        moves = atoi(argv[i]);
        printf("%s %d", argv[i], which());
        moves = 0;
        for (int cpu = 0; cpu < 2; cpu++) {
            run_on(cpu);
            printf(" %d", which());
        }
        printf("\n");
    }
    return 0;
}
