/* One core of the simulated device: its memories, and the execution of instructions on them. */
#ifndef MAVCG_ACCEL_CORE_H
#define MAVCG_ACCEL_CORE_H 1

#include "decode.h"
#include "image.h"

enum { UNIT_COUNT = 5, ENTRY_BYTES = 8, SUM_BYTES = 4, OP_COPY = 5 };

/* The on-chip memories, with a flag for each word that says whether it was written. */
struct memories {
    mavcg_accel_sizes sizes;
    int8_t *features, *weights;
    uint8_t *features_written, *weights_written;
};

/* A segment of the memory that the device can access. */
struct segment {
    unsigned char *bytes;
    size_t size;
};

struct job {
    struct segment code, parameters, features;
};

/* A tile in feature memory: word address, distances in words between rows and between blocks, and sizes. */
struct tile {
    int64_t address, row, block, rows, columns, channels;
};

bool make_memories(struct memories *memories, const mavcg_accel_sizes *sizes);
void release_memories(struct memories *memories);

/* True if a tile lies within feature memory and, if its rows overlap, holds no more than feature memory does. */
bool tile_fits(const struct memories *memories, const struct tile *tile);
/* Copy a tile to or from a dense array [rows][columns][channels]. Returns NULL, or a description of the fault. */
const char *read_tile(const struct memories *memories, const struct tile *tile, int8_t *dense);
const char *write_tile(struct memories *memories, const struct tile *tile, const int8_t *dense);
const char *load_map(struct memories *memories, const struct job *job, const int64_t *v);
const char *save_map(const struct memories *memories, const struct job *job, const int64_t *v);
const char *load_parameters(struct memories *memories, const struct job *job, const int64_t *v);
/* Access 32-bit sums at a word address: [rows][columns][channels] without padding. */
const char *check_sums(const struct memories *memories, int64_t address, int64_t pixels, int64_t channels);
const char *read_sums(const struct memories *memories, int64_t address, int64_t pixels, int64_t channels,
                      uint32_t *sums);
const char *write_sums(struct memories *memories, int64_t address, int64_t pixels, int64_t channels,
                       const uint32_t *sums);
/* Read the parameters of a convolution. bias, shifts: [out_channels]. weights: [out_channels][positions][channels],
 * with 1 channel for a depthwise convolution. */
const char *read_parameters(const struct memories *memories, const struct instruction *one, int32_t *bias,
                            int8_t *shifts, int8_t *weights);

/* Execute a conv, pool or misc instruction. Returns NULL, or a description of the fault. */
const char *compute(struct memories *memories, const struct instruction *one);

static inline int64_t blocks(int64_t count, int64_t size) { return (count + size - 1) / size; }

#endif
