/* Numbers in options of other runtimes. */
#ifndef MAVCG_NUMBERS_H
#define MAVCG_NUMBERS_H

#include <stdbool.h>

#include "internal.h"

enum { MOST_THREADS = 1024 };

/* Parse a number of threads, from 0 (the library chooses) to MOST_THREADS; returns false for any other text. */
MAVCG_PRIVATE bool parse_thread_count(const char *text, int *threads);

#endif
