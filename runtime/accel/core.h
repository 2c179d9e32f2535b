/* One core of the simulated device: its memories and what executing an instruction does to them. */
#ifndef MAVCG_ACCEL_CORE_H
#define MAVCG_ACCEL_CORE_H 1

#include "decode.h"
#include "image.h"

enum { UNIT_COUNT = 5, ENTRY_BYTES = 8, SUM_BYTES = 4, OP_COPY = 5 };

/* Memories on chip, with a byte for each word that says whether it was written. */
struct memories {
    mavcg_accel_sizes sizes;
    int8_t *features, *weights;
    uint8_t *features_written, *weights_written;
};

/* Bytes in memory that the device reaches. */
struct segment {
    unsigned char *bytes;
    size_t size;
};

struct job {
    struct segment code, parameters, features;
};

/* A tile in feature memory: word address, distances and size. */
struct tile {
    int64_t address, row, block, rows, columns, channels;
};

bool make_memories(struct memories *memories, const mavcg_accel_sizes *sizes);
void release_memories(struct memories *memories);

/* Whether a tile lies in feature memory, and is not larger than it where its rows overlap. */
bool tile_fits(const struct memories *memories, const struct tile *tile);
/* Each returns NULL, or what is wrong. `dense`: [rows][columns][channels]. */
const char *read_tile(const struct memories *memories, const struct tile *tile, int8_t *dense);
const char *write_tile(struct memories *memories, const struct tile *tile, const int8_t *dense);
const char *load_map(struct memories *memories, const struct job *job, const int64_t *v);
const char *save_map(const struct memories *memories, const struct job *job, const int64_t *v);
const char *load_parameters(struct memories *memories, const struct job *job, const int64_t *v);
/* 32-bit sums at a word address: [rows][columns][channels] without padding. */
const char *check_sums(const struct memories *memories, int64_t address, int64_t pixels, int64_t channels);
const char *read_sums(const struct memories *memories, int64_t address, int64_t pixels, int64_t channels,
                      uint32_t *sums);
const char *write_sums(struct memories *memories, int64_t address, int64_t pixels, int64_t channels,
                       const uint32_t *sums);
/* The parameters of a convolution. bias, shifts: [out_channels]; weights: [out_channels][positions][channels], 1 channel
 * for a depthwise one. */
const char *read_parameters(const struct memories *memories, const struct instruction *one, int32_t *bias,
                            int8_t *shifts, int8_t *weights);

/* Execute conv, pool and misc instructions. Returns: NULL, or what is wrong. */
const char *compute(struct memories *memories, const struct instruction *one);

static inline int64_t blocks(int64_t count, int64_t size) { return (count + size - 1) / size; }

#endif
