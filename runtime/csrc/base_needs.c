/* Compares what a library's generic versions need with what this machine offers. */
#include "base_needs.h"

#include "internal.h"
#include "x86_features.h"

#if defined(__x86_64__)
MAVCG_PRIVATE bool offers_base(const uint32_t needs[MAVCG_NEED_WORDS]) {
    uint32_t offered[MAVCG_NEED_WORDS], missing = 0;
    read_x86_features(offered);
    for (int word = 0; word < MAVCG_NEED_WORDS; word++) missing |= needs[word] & ~offered[word];
    return !missing;
}
#else
extern unsigned long getauxval(unsigned long type) MAVCG_WEAK_IMPORT; /* not on a machine without a kernel */

MAVCG_PRIVATE bool offers_base(const uint32_t needs[MAVCG_NEED_WORDS]) {
    static const unsigned long hwcaps[] = {16, 26}; /* AT_HWCAP, AT_HWCAP2: include/uapi/linux/auxvec.h */
    static const int half = 32;
    for (int number = 0; number < 2; number++) {
        uint64_t needed = needs[2 * number] | (uint64_t)needs[2 * number + 1] << half;
        if (needed && (!getauxval || needed & ~(uint64_t)getauxval(hwcaps[number]))) return false;
    }
    return true;
}
#endif
