/* Options that a user of a program gives the engine by its environment. */
#ifndef MAVCG_ENGINE_OPTIONS_H
#define MAVCG_ENGINE_OPTIONS_H

#include <stdint.h>

#include "internal.h"

/* Room for the digits of a 32-bit number and a NUL. */
enum { DECIMAL_BYTES = 11 };

/* Write a number in decimal, with a NUL. Returns its length in bytes. */
MAVCG_PRIVATE uint32_t decimal_text(char text[DECIMAL_BYTES], uint32_t value);

/* Time that waiting threads poll before they sleep: MAVCG_SPIN_US, or the library's default where it is not set, empty,
 * or not a whole number of microseconds from 0 to 1000000. A line on stderr reports such a value, once a process. A
 * set-user-ID program uses the default. */
MAVCG_PRIVATE uint64_t spin_time_ns(void);

#endif
