/* Compares the extensions that a version needs with those that this machine offers. */
#include "needs.h"

#include "internal.h"
#include "platform.h"
#include "tile_permission.h"
#include "x86_features.h"

#if defined(MAVCG_OFFERED) /* a test's substitute, for machines that it does not run on */
void MAVCG_OFFERED(uint32_t words[MAVCG_NEED_WORDS]);
#define read_offered MAVCG_OFFERED
#elif !defined(__aarch64__)
/* Under a hypervisor CPUID traps, so it is read once; several threads store the same values. */
static void read_offered(uint32_t words[MAVCG_NEED_WORDS]) {
    static uint32_t offered[MAVCG_NEED_WORDS], is_read;
    if (!__atomic_load_n(&is_read, __ATOMIC_ACQUIRE)) {
        read_x86_features(words);
        for (int word = 0; word < MAVCG_NEED_WORDS; word++)
            __atomic_store_n(&offered[word], words[word], __ATOMIC_RELAXED);
        __atomic_store_n(&is_read, 1, __ATOMIC_RELEASE);
    }
    for (int word = 0; word < MAVCG_NEED_WORDS; word++) words[word] = __atomic_load_n(&offered[word], __ATOMIC_RELAXED);
}
#endif

#if defined(__aarch64__) && !defined(MAVCG_OFFERED)
MAVCG_PRIVATE bool can_run(const struct mavcg_set *set, unsigned id) {
    static const int half = 32;
    if (id < MAVCG_FIRST_CORE) return true;
    const uint32_t *needs = set->needs[id - MAVCG_FIRST_CORE];
    for (int number = 0; number < 2; number++) {
        uint64_t needed = needs[2 * number] | (uint64_t)needs[2 * number + 1] << half;
        if (needed && needed & ~arm_hwcap(number)) return false;
    }
    return true;
}
#else
MAVCG_PRIVATE bool can_run(const struct mavcg_set *set, unsigned id) {
    uint32_t offered[MAVCG_NEED_WORDS], missing = 0;
    if (id < MAVCG_FIRST_CORE) return true;
    read_offered(offered);
    const uint32_t *needs = set->needs[id - MAVCG_FIRST_CORE];
    for (int word = 0; word < MAVCG_NEED_WORDS; word++) missing |= needs[word] & ~offered[word];
    /* Asked only for a version that will run: with the permission, all of the process's signal frames may be larger. */
    return !missing && (!(needs[NEED_XCR0] >> XTILEDATA & 1) || tiles_permitted());
}
#endif
