/* Asks Linux for the use of AMX's tile registers.
 *
 * Source: Linux, Documentation/arch/x86/xstate.rst; numbers: arch/x86/include/uapi/asm/prctl.h. */
#include "tile_permission.h"

#include "internal.h"
#include "linux_calls.h"

#if defined(__x86_64__) && !defined(__APPLE__) && !defined(MAVCG_TILES_PERMITTED)
MAVCG_PRIVATE bool tiles_permitted(void) {
    enum { REQUEST_PERMISSION = 0x1023, NOT_ASKED = 0, PERMITTED, REFUSED };
    static uint32_t answer; /* several threads may ask: the kernel answers all of them alike */
    uint32_t known = __atomic_load_n(&answer, __ATOMIC_RELAXED);
    if (known == NOT_ASKED) {
        known = system_call(SYS_ARCH_PRCTL, REQUEST_PERMISSION, XTILEDATA, 0) ? REFUSED : PERMITTED;
        __atomic_store_n(&answer, known, __ATOMIC_RELAXED);
    }
    return known == PERMITTED;
}
#endif
