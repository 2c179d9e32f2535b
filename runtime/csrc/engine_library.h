/* Control over when the library may be unloaded. */
#ifndef MAVCG_ENGINE_LIBRARY_H
#define MAVCG_ENGINE_LIBRARY_H

#include "internal.h"

/* Keep the library that contains `address` loaded, as a second dlopen would. Returns the argument for unload_library;
 * NULL if the address is not in a library that can be unloaded.
 *
 * A library's code must stay mapped while its threads sleep, or while a pointer into it exists. The imports are weak
 * because a static program has neither of these functions, nor dlclose. */
MAVCG_PRIVATE void *keep_loaded(const void *address);
extern void unload_library(void *library) __asm__("dlclose") MAVCG_WEAK_IMPORT;

/* A tail call, for a last call that may unmap the calling function's code: the callee returns to the function's
 * caller. */
#if defined(__clang__)
#define LAST_CALL __attribute__((musttail)) return
#else
#define LAST_CALL /* other compilers: the engine is then part of a program, never of a library */
#endif

#endif
