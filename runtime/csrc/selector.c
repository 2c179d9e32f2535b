/* The selector itself: all of it but the sets that it selects for. */

/* All but select.c runs once: small is better there. */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((minsize)), apply_to = function)
#endif
#if defined(__APPLE__)
#include "platform_macos.c"
#else
#include "platform_linux.c"
#endif
#include "text.c"
#include "names.c"
#include "x86.c"
#include "cpu_map.c"
#include "cpuinfo.c"
#include "sysfs.c"
#include "table.c"
#include "trace.c"
#include "start.c"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#include "select.c"
