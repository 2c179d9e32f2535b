/* Decoding of instructions, by the layouts of forms.h. */
#ifndef MAVCG_ACCEL_DECODE_H
#define MAVCG_ACCEL_DECODE_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "forms.h"

struct instruction {
    const struct form *form;
    uint32_t wait, signal; /* bit masks of execution units */
    int64_t values[MOST_FIELDS];
};

/* Decode the instruction at `code`, of which `left` bytes remain. why: [MESSAGE_BYTES of image.h], receives a
 * description of the fault. Returns the instruction's length in bytes, or 0 for an invalid instruction. */
size_t decode(const unsigned char *code, size_t left, struct instruction *made, char *why);

#endif
