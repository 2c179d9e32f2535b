/* The memories of a simulated core. Channel c of the pixel (row, x) of a tile is byte c mod W of the word address + (c
 * div W) * block + row * distance + x. */
#include <stdlib.h>
#include <string.h>

#include "core.h"

bool make_memories(struct memories *memories, const mavcg_accel_sizes *sizes) {
    size_t features = (size_t)sizes->feature_words * sizes->word;
    size_t weights = (size_t)sizes->weight_words * sizes->word * sizes->oc_lanes;
    memories->sizes = *sizes;
    memories->features = calloc(features + 1, 1);
    memories->weights = calloc(weights + 1, 1);
    memories->features_written = calloc((size_t)sizes->feature_words + 1, 1);
    memories->weights_written = calloc((size_t)sizes->weight_words + 1, 1);
    return memories->features && memories->weights && memories->features_written && memories->weights_written;
}

void release_memories(struct memories *memories) {
    free(memories->features);
    free(memories->weights);
    free(memories->features_written);
    free(memories->weights_written);
}

bool tile_fits(const struct memories *memories, const struct tile *tile) {
    int64_t words = memories->sizes.feature_words, count = blocks(tile->channels, memories->sizes.word);
    int64_t last = tile->address + (tile->rows - 1) * tile->row + tile->columns - 1 + (count - 1) * tile->block;
    return last < words && tile->rows * tile->columns <= words && tile->rows * tile->columns * count <= words;
}

static int64_t word_of(const struct tile *tile, int64_t row, int64_t column, int64_t block) {
    return tile->address + block * tile->block + row * tile->row + column;
}

static int64_t part_of(const struct tile *tile, int64_t block, int64_t word) {
    int64_t left = tile->channels - block * word;
    return left < word ? left : word;
}

const char *read_tile(const struct memories *memories, const struct tile *tile, int8_t *dense) {
    if (!tile_fits(memories, tile)) return "a tile ends beyond feature memory";
    int64_t word = memories->sizes.word, count = blocks(tile->channels, word);
    for (int64_t row = 0; row < tile->rows; row++)
        for (int64_t column = 0; column < tile->columns; column++, dense += tile->channels)
            for (int64_t block = 0; block < count; block++) {
                int64_t at = word_of(tile, row, column, block);
                if (!memories->features_written[at]) return "reads feature memory that was never written";
                memcpy(dense + block * word, memories->features + at * word, (size_t)part_of(tile, block, word));
            }
    return NULL;
}

const char *write_tile(struct memories *memories, const struct tile *tile, const int8_t *dense) {
    if (!tile_fits(memories, tile)) return "a tile ends beyond feature memory";
    int64_t word = memories->sizes.word, count = blocks(tile->channels, word);
    for (int64_t row = 0; row < tile->rows; row++)
        for (int64_t column = 0; column < tile->columns; column++, dense += tile->channels)
            for (int64_t block = 0; block < count; block++) {
                int64_t at = word_of(tile, row, column, block), part = part_of(tile, block, word);
                int8_t *to = memories->features + at * word;
                memcpy(to, dense + block * word, (size_t)part);
                memset(to + part, 0, (size_t)(word - part));
                memories->features_written[at] = 1;
            }
    return NULL;
}

/* Return the start of a map's pixels off chip; NULL if the map ends beyond the segment. */
static unsigned char *map_bytes(const struct job *job, const int64_t *v) {
    uint64_t last = (uint64_t)v[LOAD_MAP_DDR] + (uint64_t)(v[LOAD_MAP_ROWS] - 1) * (uint64_t)v[LOAD_MAP_DDR_ROW] +
                    (uint64_t)(v[LOAD_MAP_COLUMNS] - 1) * (uint64_t)v[LOAD_MAP_DDR_PIXEL] +
                    (uint64_t)v[LOAD_MAP_CHANNELS];
    return last <= job->features.size ? job->features.bytes + v[LOAD_MAP_DDR] : NULL;
}

/* Copy between a map off chip and a dense tile. from_map: the direction. */
static void copy_map(unsigned char *map, const int64_t *v, int8_t *dense, bool from_map) {
    size_t channels = (size_t)v[LOAD_MAP_CHANNELS];
    for (int64_t row = 0; row < v[LOAD_MAP_ROWS]; row++)
        for (int64_t column = 0; column < v[LOAD_MAP_COLUMNS]; column++, dense += channels) {
            unsigned char *pixel = map + row * v[LOAD_MAP_DDR_ROW] + column * v[LOAD_MAP_DDR_PIXEL];
            if (from_map) memcpy(dense, pixel, channels);
            else memcpy(pixel, dense, channels);
        }
}

/* Return the tile of a load.map or save.map, which have the same layout. */
static struct tile map_tile(const int64_t *v) {
    return (struct tile){v[LOAD_MAP_TO],   v[LOAD_MAP_TO_ROW],  v[LOAD_MAP_TO_BLOCK],
                         v[LOAD_MAP_ROWS], v[LOAD_MAP_COLUMNS], v[LOAD_MAP_CHANNELS]};
}

/* Allocate a dense buffer for a tile. Returns NULL, with *why set, if the tile does not fit feature memory or there is
 * no memory. */
static int8_t *buffer_of(const struct memories *memories, const struct tile *tile, const char **why) {
    *why = tile_fits(memories, tile) ? "no memory for a tile" : "a tile ends beyond feature memory";
    return tile_fits(memories, tile) ? malloc((size_t)(tile->rows * tile->columns * tile->channels)) : NULL;
}

const char *load_map(struct memories *memories, const struct job *job, const int64_t *v) {
    struct tile tile = map_tile(v);
    unsigned char *map = map_bytes(job, v);
    if (!map) return "a map ends beyond the features segment";
    const char *why;
    int8_t *dense = buffer_of(memories, &tile, &why);
    if (!dense) return why;
    copy_map(map, v, dense, true);
    why = write_tile(memories, &tile, dense);
    free(dense);
    return why;
}

const char *save_map(const struct memories *memories, const struct job *job, const int64_t *v) {
    struct tile tile = map_tile(v);
    unsigned char *map = map_bytes(job, v);
    if (!map) return "a map ends beyond the features segment";
    const char *why;
    int8_t *dense = buffer_of(memories, &tile, &why);
    if (!dense) return why;
    why = read_tile(memories, &tile, dense);
    if (!why) copy_map(map, v, dense, false);
    free(dense);
    return why;
}

const char *load_parameters(struct memories *memories, const struct job *job, const int64_t *v) {
    int64_t word = (int64_t)memories->sizes.word * memories->sizes.oc_lanes, words = v[LOAD_PARAMETERS_WORDS];
    int64_t from = v[LOAD_PARAMETERS_DDR], to = v[LOAD_PARAMETERS_TO];
    if ((uint64_t)(from + words * word) > job->parameters.size) return "reads beyond the parameters segment";
    if (to + words > memories->sizes.weight_words) return "writes beyond weight memory";
    memcpy(memories->weights + to * word, job->parameters.bytes + from, (size_t)(words * word));
    memset(memories->weights_written + to, 1, (size_t)words);
    return NULL;
}

const char *check_sums(const struct memories *memories, int64_t address, int64_t pixels, int64_t channels) {
    int64_t words = memories->sizes.feature_words, count = blocks(channels, memories->sizes.word);
    return pixels > words || address + SUM_BYTES * pixels * count > words ? "sums end beyond feature memory" : NULL;
}

const char *read_sums(const struct memories *memories, int64_t address, int64_t pixels, int64_t channels,
                      uint32_t *sums) {
    int64_t word = memories->sizes.word, padded = blocks(channels, word) * word;
    const char *why = check_sums(memories, address, pixels, channels);
    if (why) return why;
    for (int64_t at = address; at < address + SUM_BYTES * pixels * padded / word; at++)
        if (!memories->features_written[at]) return "reads sums that were never written";
    const int8_t *from = memories->features + address * word;
    for (int64_t pixel = 0; pixel < pixels; pixel++, from += SUM_BYTES * padded, sums += channels)
        memcpy(sums, from, SUM_BYTES * (size_t)channels);
    return NULL;
}

const char *write_sums(struct memories *memories, int64_t address, int64_t pixels, int64_t channels,
                       const uint32_t *sums) {
    int64_t word = memories->sizes.word, padded = blocks(channels, word) * word;
    const char *why = check_sums(memories, address, pixels, channels);
    if (why) return why;
    int8_t *to = memories->features + address * word;
    for (int64_t pixel = 0; pixel < pixels; pixel++, to += SUM_BYTES * padded, sums += channels) {
        memcpy(to, sums, SUM_BYTES * (size_t)channels);
        memset(to + SUM_BYTES * channels, 0, SUM_BYTES * (size_t)(padded - channels));
    }
    memset(memories->features_written + address, 1, (size_t)(SUM_BYTES * pixels * padded / word));
    return NULL;
}

const char *read_parameters(const struct memories *memories, const struct instruction *one, int32_t *bias,
                            int8_t *shifts, int8_t *weights) {
    const int64_t *v = one->values;
    bool depthwise = one->form->kind == CONV_DEPTHWISE;
    int64_t word = memories->sizes.word, lanes = memories->sizes.oc_lanes, row = word * lanes;
    int64_t positions = v[CONV_DENSE_KERNEL_ROWS] * v[CONV_DENSE_KERNEL_COLUMNS];
    int64_t channels = depthwise ? 1 : v[CONV_DENSE_CHANNELS], in_blocks = blocks(channels, word);
    int64_t entry_words = blocks(ENTRY_BYTES * lanes, row);
    int64_t size = entry_words + (depthwise ? blocks(positions, word) : positions * in_blocks);
    int64_t first = v[CONV_DENSE_PARAMETERS], end = first + size * blocks(v[CONV_DENSE_OUT_CHANNELS], lanes);
    if (end > memories->sizes.weight_words) return "parameters end beyond weight memory";
    for (int64_t at = first; at < end; at++)
        if (!memories->weights_written[at]) return "reads weight memory that was never loaded";
    for (int64_t o = 0; o < v[CONV_DENSE_OUT_CHANNELS]; o++, weights += positions * channels) {
        const int8_t *block = memories->weights + (first + o / lanes * size) * row,
                     *entry = block + o % lanes * ENTRY_BYTES;
        const int8_t *stored = block + entry_words * row + o % lanes * word;
        memcpy(&bias[o], entry, sizeof *bias);
        shifts[o] = entry[4];
        for (int64_t t = 0; depthwise && t < positions; t++) weights[t] = stored[t / word * row + t % word];
        for (int64_t t = 0; !depthwise && t < positions; t++)
            for (int64_t i = 0; i < in_blocks; i++) {
                int64_t left = channels - i * word;
                memcpy(weights + t * channels + i * word, stored + (t * in_blocks + i) * row,
                       (size_t)(left < word ? left : word));
            }
    }
    return NULL;
}
