/* BLAKE2b (RFC 7693) with a 32-byte digest and no key. Data may be added in several pieces. */
#ifndef MAVCG_BLAKE2B_H
#define MAVCG_BLAKE2B_H

#include <stddef.h>
#include <stdint.h>

#include "internal.h"

enum { BLAKE2B_BLOCK = 128, BLAKE2B_DIGEST = 32 };

struct blake2b {
    uint64_t state[8], bytes;
    size_t used; /* bytes of `block` in use */
    uint8_t block[BLAKE2B_BLOCK];
};

MAVCG_PRIVATE void blake2b_begin(struct blake2b *hash);
MAVCG_PRIVATE void blake2b_add(struct blake2b *hash, const void *data, size_t size);
MAVCG_PRIVATE void blake2b_end(struct blake2b *hash, uint8_t digest[BLAKE2B_DIGEST]);

#endif
