/* How long the library stays loaded. */
#ifndef MAVCG_ENGINE_LIBRARY_H
#define MAVCG_ENGINE_LIBRARY_H

#include "internal.h"

/* Keep the library that `address` is in loaded, as a second dlopen would. Returns the argument of unload_library; NULL
 * where it is not a library, or not one that can be unloaded.
 *
 * Threads that sleep in a library, or a pointer into it, must not outlive its code. The imports are weak: a static
 * program has no such functions, and no dlclose either. */
MAVCG_PRIVATE void *keep_loaded(const void *address);
extern void unload_library(void *library) __asm__("dlclose") MAVCG_WEAK_IMPORT;

/* The last call of a function whose code may be unmapped when it returns: it returns to the function's caller. */
#if defined(__clang__)
#define LAST_CALL __attribute__((musttail)) return
#else
#define LAST_CALL /* compiled by another compiler, the engine is part of a program, never a library */
#endif

#endif
