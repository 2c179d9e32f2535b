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
MAVCG_PRIVATE bool offers_base(const uint32_t needs[MAVCG_NEED_WORDS]) { return (void)needs, true; }
#endif
