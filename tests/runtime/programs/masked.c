/* A processor of Intel's family 6 by its CPUID: the environment's SHOWN has its model, its largest leaf and EDX of leaf 7,
 * in hexadecimal. Prints which(). */
#include "versioned.h"

uint32_t masked_cpuid(uint32_t leaf, uint32_t subleaf, int wanted) {
    enum { EAX, EBX, ECX, EDX };
    unsigned model, leaves, features;
    (void)subleaf;
    if (sscanf(getenv("SHOWN"), "%x %x %x", &model, &leaves, &features) != 3) exit(1);
    if (leaf == 0) return wanted == EAX ? leaves : wanted == EBX ? 0x756E6547 : 0;
    if (leaf == 1) return wanted == EAX ? (model & 0xF0) << 12 | (model & 0xF) << 4 | 6 << 8 : 0;
    if (leaf == 7 && leaves >= 7) return wanted == EDX ? features : 0;
    return 0;
}

int main(void) {
    printf("version %d\n", which());
    return 0;
}
