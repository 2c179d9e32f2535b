/* Computes BLAKE2b. Source: RFC 7693, section 3 (algorithm) and section 2.6 (initialisation vector). */
#include "blake2b.h"

#include <stdbool.h>
#include <string.h>

#include "internal.h"

enum { ROUNDS = 12, WORDS = 16 };

static const uint64_t initial[8] = {
    0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
    0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
};

/* The order in which each round takes the words of a block; rounds 10 and 11 repeat 0 and 1. */
static const uint8_t permutations[10][WORDS] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

static uint64_t rotated(uint64_t value, int bits) { return value >> bits | value << (64 - bits); }

static void mix(uint64_t *v, int a, int b, int c, int d, uint64_t x, uint64_t y) {
    v[a] += v[b] + x;
    v[d] = rotated(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = rotated(v[b] ^ v[c], 24);
    v[a] += v[b] + y;
    v[d] = rotated(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = rotated(v[b] ^ v[c], 63);
}

static void compress(struct blake2b *hash, bool last) {
    uint64_t v[WORDS], words[WORDS];
    memcpy(words, hash->block, sizeof words); /* little-endian, as all targets are */
    for (int i = 0; i < 8; i++) {
        v[i] = hash->state[i];
        v[i + 8] = initial[i];
    }
    v[12] ^= hash->bytes;
    if (last) v[14] = ~v[14];
    for (int round = 0; round < ROUNDS; round++) {
        const uint8_t *order = permutations[round % 10];
        for (int i = 0; i < 4; i++, order += 2) mix(v, i, i + 4, i + 8, i + 12, words[order[0]], words[order[1]]);
        for (int i = 0; i < 4; i++, order += 2)
            mix(v, i, (i + 1) % 4 + 4, (i + 2) % 4 + 8, (i + 3) % 4 + 12, words[order[0]], words[order[1]]);
    }
    for (int i = 0; i < 8; i++) hash->state[i] ^= v[i] ^ v[i + 8];
    hash->used = 0;
}

MAVCG_PRIVATE void blake2b_begin(struct blake2b *hash) {
    memset(hash, 0, sizeof *hash);
    memcpy(hash->state, initial, sizeof initial);
    hash->state[0] ^= 0x01010000 ^ BLAKE2B_DIGEST;
}

/* Compress a full block only when more data follows: the last block is flagged as such when the digest is computed. */
MAVCG_PRIVATE void blake2b_add(struct blake2b *hash, const void *data, size_t size) {
    const uint8_t *at = data;
    while (size) {
        if (hash->used == BLAKE2B_BLOCK) compress(hash, false);
        size_t room = BLAKE2B_BLOCK - hash->used, count = size < room ? size : room;
        memcpy(hash->block + hash->used, at, count);
        hash->used += count;
        hash->bytes += count;
        at += count;
        size -= count;
    }
}

MAVCG_PRIVATE void blake2b_end(struct blake2b *hash, uint8_t digest[BLAKE2B_DIGEST]) {
    memset(hash->block + hash->used, 0, BLAKE2B_BLOCK - hash->used);
    compress(hash, true);
    memcpy(digest, hash->state, BLAKE2B_DIGEST);
}
