/* Options that the user of a program sets by environment variables. */
#ifndef MAVCG_ENGINE_OPTIONS_H
#define MAVCG_ENGINE_OPTIONS_H

#include <stdint.h>

#include "internal.h"

/* Bytes for the digits of a 32-bit number and a NUL. */
enum { DECIMAL_BYTES = 11 };

/* Write a number in decimal, with a NUL. Returns the text's length in bytes, without the NUL. */
MAVCG_PRIVATE uint32_t decimal_text(char text[DECIMAL_BYTES], uint32_t value);

/* Return the time for which waiting threads poll before they sleep: MAVCG_SPIN_US, or the library's default if the
 * variable is unset, empty, or not an integer number of microseconds from 0 to 1000000. An invalid value is reported by
 * one line on stderr, once per process. A set-user-ID program uses the default. */
MAVCG_PRIVATE uint64_t spin_time_ns(void);

#endif
