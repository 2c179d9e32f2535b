/* Parses numbers in options of other runtimes. */
#include "numbers.h"

#include "internal.h"

MAVCG_PRIVATE bool parse_thread_count(const char *text, int *threads) {
    int value = 0;
    if (!*text) return false;
    for (const char *at = text; *at; at++) {
        if (*at < '0' || *at > '9') return false;
        value = value * 10 + (*at - '0');
        if (value > MOST_THREADS) return false;
    }
    *threads = value;
    return true;
}
