/* Instructions out of code, by the layouts of forms.h. */
#ifndef MAVCG_ACCEL_DECODE_H
#define MAVCG_ACCEL_DECODE_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "forms.h"

struct instruction {
    const struct form *form;
    uint32_t wait, signal; /* masks of units */
    int64_t values[MOST_FIELDS];
};

/* Decode the instruction at `code`, of which `left` bytes are there. why: [MESSAGE_BYTES of image.h], what is wrong.
 * Returns: its bytes, 0 where there is none. */
size_t decode(const unsigned char *code, size_t left, struct instruction *made, char *why);

#endif
