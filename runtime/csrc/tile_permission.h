/* The permission to use AMX's tile registers, which Linux gives to a process that asks for it. Before, an instruction on
 * tiles raises SIGILL, although CPUID and XCR0 offer it. */
#ifndef MAVCG_TILE_PERMISSION_H
#define MAVCG_TILE_PERMISSION_H

#include "internal.h"

/* XCR0's bit of the data of tile registers, in the word of it (x86_needs.h). */
enum { NEED_XCR0 = 6, XTILEDATA = 18 };

/* Ask for the permission, once in a process, and return whether it is given. It holds for all threads, those that are
 * there and those to come, and for forked processes. It is refused by systems other than Linux, by kernels before 5.16,
 * by sandboxes, and to a process with a thread whose alternate signal stack is too small for the state of tiles. */
#if defined(MAVCG_TILES_PERMITTED) /* a test's substitute, for machines that it does not run on */
bool MAVCG_TILES_PERMITTED(void);
#define tiles_permitted MAVCG_TILES_PERMITTED
#elif defined(__x86_64__) && !defined(__APPLE__)
MAVCG_PRIVATE bool tiles_permitted(void);
#else
#define tiles_permitted() false
#endif

#endif
