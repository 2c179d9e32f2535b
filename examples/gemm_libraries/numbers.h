/* Seeded numbers and a checksum: the same on every machine. */
#ifndef GEMM_LIBRARIES_NUMBERS_H
#define GEMM_LIBRARIES_NUMBERS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t number_state = 1;

static inline uint32_t next_number(void) { /* Knuth's MMIX generator, upper half */
    number_state = number_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(number_state >> 32);
}

static inline float next_float(void) { /* [-1, 1), exact */
    return (float)(int32_t)(next_number() & ~0xffu) * 0x1p-31f;
}

static inline uint64_t fnv1a(uint64_t hash, const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return hash;
}

static inline void *memory_of(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return memory;
}

static inline double milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* The one argument: how often everything is computed. */
static inline int rounds_of(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    if (rounds < 1) {
        fprintf(stderr, "%s: '%s' is no number of rounds; give one of 1 or more\n", argv[0], argv[1]);
        exit(2);
    }
    return rounds;
}

#endif
