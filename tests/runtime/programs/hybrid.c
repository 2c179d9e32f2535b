/* An Alder Lake by its CPUID (family 6, model 9AH), whose CPU 0 is a Core and CPU 1 an Atom; prints which() on both. */
#include "versioned.h"

uint32_t alder_lake_cpuid(uint32_t leaf, uint32_t subleaf, int wanted) {
    enum { EAX, EBX, ECX, EDX };
    (void)subleaf;
    if (leaf == 0) return wanted == EAX ? 0x20 : wanted == EBX ? 0x756E6547 : 0;
    if (leaf == 1) return wanted == EAX ? 0x906A3 : 0;
    if (leaf == 7) return wanted == EDX ? 1u << 15 : 0;
    if (leaf == 0x1A) return wanted == EAX ? (sched_getcpu() ? 0x20000001u : 0x40000001u) : 0;
    return 0;
}

int main(void) {
    for (int cpu = 0; cpu < 2; cpu++) {
        run_on(cpu);
        printf("table%d %d\n", cpu, table_of_set[cpu]);
        printf("cpu%d %d\n", cpu, which());
    }
    return 0;
}
