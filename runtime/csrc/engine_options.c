/* Reads the environment variable MAVCG_SPIN_US. */
#include "engine_options.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/uio.h>

#include "engine.h"
#include "internal.h"

enum { MAX_SPIN_US = 1000000, SECURE_MODE = 23 /* AT_SECURE, include/uapi/linux/auxvec.h */ };

MAVCG_PRIVATE uint32_t decimal_text(char text[DECIMAL_BYTES], uint32_t value) {
    uint32_t length = 1, divisor = 1;
    for (; value / divisor >= 10; length++) divisor *= 10;
    for (uint32_t i = 0; i < length; i++, divisor /= 10) text[i] = (char)('0' + value / divisor % 10);
    text[length] = 0;
    return length;
}

/* Parse an integer from 0 to MAX_SPIN_US; returns false for any other text. */
static bool parse_spin_us(const char *text, uint32_t *spin_us) {
    uint32_t value = 0;
    for (const char *at = text; *at; at++) {
        if (*at < '0' || *at > '9') return false;
        value = value * 10 + (uint32_t)(*at - '0');
        if (value > MAX_SPIN_US) return false;
    }
    *spin_us = value;
    return *text != 0;
}

/* Write one line in a single call, so that lines of several processes do not mix. A closed stderr is not an error. */
static void report_spin_us(const char *value) {
    static const char before[] = "mavcg: MAVCG_SPIN_US: '",
                      after[] = "' is not 0 to 1000000 microseconds; the default of ";
    static const char end[] = " is used\n";
    char digits[DECIMAL_BYTES];
    struct iovec parts[] = {
        {(void *)before, sizeof before - 1},     {(void *)value, strlen(value)}, {(void *)after, sizeof after - 1},
        {digits, decimal_text(digits, SPIN_US)}, {(void *)end, sizeof end - 1},
    };
    if (writev(2, parts, sizeof parts / sizeof parts[0]) < 0) return;
}

MAVCG_PRIVATE uint64_t spin_time_ns(void) {
    static bool reported;
    uint32_t spin_us = SPIN_US;
    const char *value = getauxval(SECURE_MODE) ? NULL : getenv("MAVCG_SPIN_US");
    if (value && *value && !parse_spin_us(value, &spin_us) && !__atomic_exchange_n(&reported, true, __ATOMIC_RELAXED))
        report_spin_us(value);
    return (uint64_t)spin_us * 1000;
}
