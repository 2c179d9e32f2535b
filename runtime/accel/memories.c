/* The memories of a simulated core. Channel c of the pixel (row, x) of a tile is byte c mod W of the word address + (c
 * div W) * block + row * distance + x. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "execution.h"

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
    for (int i = 0; i < ARRAY_COUNT; i++) free(memories->arrays[i]);
}

bool fault(struct memories *memories, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(memories->fault, MESSAGE_BYTES, format, arguments);
    va_end(arguments);
    return false;
}

void *array_of(struct memories *memories, enum array which, int64_t bytes) {
    if ((size_t)bytes > memories->array_bytes[which]) {
        free(memories->arrays[which]); /* not realloc: nobody needs what it holds */
        memories->arrays[which] = malloc((size_t)bytes);
        memories->array_bytes[which] = memories->arrays[which] ? (size_t)bytes : 0;
        if (!memories->arrays[which]) fault(memories, "no memory for %" PRId64 " bytes of operands", bytes);
    }
    return memories->arrays[which];
}

bool tile_fits(struct memories *memories, const struct tile *tile) {
    int64_t words = memories->sizes.feature_words, count = blocks(tile->channels, memories->sizes.word);
    /* Rows may overlap, so that a tile ends within the memory and yet has more words. */
    if (tile->rows > words / tile->columns || tile->rows * tile->columns > words / count)
        return fault(memories,
                     "%s: a tile of %" PRId64 " x %" PRId64 " x %" PRId64 " words; feature memory has %" PRId64,
                     tile->field, tile->rows, tile->columns, count, words);
    int64_t last = tile->address + (tile->rows - 1) * tile->row + tile->columns - 1 + (count - 1) * tile->block;
    return last < words ||
           fault(memories, "%s: reaches word %" PRId64 "; feature memory has %" PRId64, tile->field, last, words);
}

static int64_t word_of(const struct tile *tile, int64_t row, int64_t column, int64_t block) {
    return tile->address + block * tile->block + row * tile->row + column;
}

static int64_t part_of(const struct tile *tile, int64_t block, int64_t word) {
    int64_t left = tile->channels - block * word;
    return left < word ? left : word;
}

/* Check that every word of a tile was written. */
static bool tile_is_written(struct memories *memories, const struct tile *tile) {
    int64_t count = blocks(tile->channels, memories->sizes.word), first = INT64_MAX;
    for (int64_t row = 0; row < tile->rows; row++)
        for (int64_t block = 0; block < count; block++)
            for (int64_t column = 0; column < tile->columns; column++) {
                int64_t at = word_of(tile, row, column, block);
                if (!memories->features_written[at] && at < first) first = at;
            }
    return first == INT64_MAX ||
           fault(memories, "%s: word %" PRId64 " of feature memory is read before anything is written to it",
                 tile->field, first);
}

const int8_t *read_tile(struct memories *memories, const struct tile *tile, enum array which) {
    if (!tile_fits(memories, tile) || !tile_is_written(memories, tile)) return NULL;
    int8_t *dense = array_of(memories, which, tile->rows * tile->columns * tile->channels), *to = dense;
    int64_t word = memories->sizes.word, count = blocks(tile->channels, word);
    for (int64_t row = 0; dense && row < tile->rows; row++)
        for (int64_t column = 0; column < tile->columns; column++, to += tile->channels)
            for (int64_t block = 0; block < count; block++)
                memcpy(to + block * word, memories->features + word_of(tile, row, column, block) * word,
                       (size_t)part_of(tile, block, word));
    return dense;
}

bool write_tile(struct memories *memories, const struct tile *tile, const int8_t *dense) {
    if (!tile_fits(memories, tile)) return false;
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
    return true;
}

/* Check that a map lies within the features segment. */
static bool map_fits(struct memories *memories, const mavcg_accel_job *job, const int64_t *v) {
    int64_t last = v[LOAD_MAP_DDR] + (v[LOAD_MAP_ROWS] - 1) * v[LOAD_MAP_DDR_ROW] +
                   (v[LOAD_MAP_COLUMNS] - 1) * v[LOAD_MAP_DDR_PIXEL] + v[LOAD_MAP_CHANNELS] - 1;
    return (size_t)last < job->feature_bytes ||
           fault(memories, "ddr: reaches byte %" PRId64 "; the features segment has %zu", last, job->feature_bytes);
}

static size_t pixel_of(const int64_t *v, int64_t row, int64_t column) {
    return (size_t)(v[LOAD_MAP_DDR] + row * v[LOAD_MAP_DDR_ROW] + column * v[LOAD_MAP_DDR_PIXEL]);
}

/* Check that every byte of a map was written, if that is known. */
static bool map_is_written(struct memories *memories, const mavcg_accel_job *job, const int64_t *v) {
    size_t channels = (size_t)v[LOAD_MAP_CHANNELS], first = SIZE_MAX;
    for (int64_t row = 0; job->features_written && row < v[LOAD_MAP_ROWS]; row++)
        for (int64_t column = 0; column < v[LOAD_MAP_COLUMNS]; column++) {
            size_t at = pixel_of(v, row, column);
            const unsigned char *lacking = memchr(job->features_written + at, 0, channels);
            size_t byte = lacking ? (size_t)(lacking - job->features_written) : SIZE_MAX;
            if (byte < first) first = byte;
        }
    return first == SIZE_MAX ||
           fault(memories, "ddr: byte %zu of the features segment is read before anything is written to it", first);
}

/* Return the tile of a load.map or save.map, which have the same layout. */
static struct tile map_tile(const char *field, const int64_t *v) {
    return (struct tile){field,
                         v[LOAD_MAP_TO],
                         v[LOAD_MAP_TO_ROW],
                         v[LOAD_MAP_TO_BLOCK],
                         v[LOAD_MAP_ROWS],
                         v[LOAD_MAP_COLUMNS],
                         v[LOAD_MAP_CHANNELS]};
}

bool load_map(struct memories *memories, const mavcg_accel_job *job, const int64_t *v) {
    struct tile tile = map_tile("to", v);
    if (!map_fits(memories, job, v) || !tile_fits(memories, &tile) || !map_is_written(memories, job, v)) return false;
    int8_t *dense = array_of(memories, FIRST, tile.rows * tile.columns * tile.channels), *to = dense;
    for (int64_t row = 0; dense && row < tile.rows; row++)
        for (int64_t column = 0; column < tile.columns; column++, to += tile.channels)
            memcpy(to, job->features + pixel_of(v, row, column), (size_t)tile.channels);
    return dense && write_tile(memories, &tile, dense);
}

bool save_map(struct memories *memories, const mavcg_accel_job *job, const int64_t *v) {
    struct tile tile = map_tile("from", v);
    if (!map_fits(memories, job, v)) return false;
    const int8_t *dense = read_tile(memories, &tile, FIRST);
    for (int64_t row = 0; dense && row < tile.rows; row++)
        for (int64_t column = 0; column < tile.columns; column++, dense += tile.channels) {
            size_t at = pixel_of(v, row, column);
            memcpy(job->features + at, dense, (size_t)tile.channels);
            if (job->features_written) memset(job->features_written + at, 1, (size_t)tile.channels);
        }
    return dense != NULL;
}

bool load_parameters(struct memories *memories, const mavcg_accel_job *job, const int64_t *v) {
    int64_t word = (int64_t)memories->sizes.word * memories->sizes.oc_lanes, words = v[LOAD_PARAMETERS_WORDS];
    int64_t from = v[LOAD_PARAMETERS_DDR], to = v[LOAD_PARAMETERS_TO], bytes = words * word;
    if ((size_t)(from + bytes) > job->parameter_bytes)
        return fault(memories, "ddr: %" PRId64 " bytes at %" PRId64 " end after the %zu bytes of parameters", bytes,
                     from, job->parameter_bytes);
    if (to + words > memories->sizes.weight_words)
        return fault(memories, "to: reaches word %" PRId64 "; weight memory has %" PRIu32, to + words - 1,
                     memories->sizes.weight_words);
    memcpy(memories->weights + to * word, job->parameters + from, (size_t)bytes);
    memset(memories->weights_written + to, 1, (size_t)words);
    return true;
}

/* Return the words of feature memory that sums take. */
static int64_t sum_words(const struct memories *memories, int64_t pixels, int64_t channels) {
    return SUM_BYTES * pixels * blocks(channels, memories->sizes.word);
}

bool sums_fit(struct memories *memories, int64_t address, int64_t pixels, int64_t channels) {
    int64_t end = address + sum_words(memories, pixels, channels);
    return end <= memories->sizes.feature_words ||
           fault(memories, "sums: reach word %" PRId64 "; feature memory has %" PRIu32, end - 1,
                 memories->sizes.feature_words);
}

bool read_sums(struct memories *memories, int64_t address, int64_t pixels, int64_t channels, uint32_t *sums) {
    int64_t word = memories->sizes.word, words = sum_words(memories, pixels, channels);
    if (memchr(memories->features_written + address, 0, (size_t)words))
        return fault(memories, "sums: words %" PRId64 " to %" PRId64 " are read before all of them are written",
                     address, address + words - 1);
    const int8_t *from = memories->features + address * word;
    for (int64_t pixel = 0; pixel < pixels; pixel++, sums += channels)
        memcpy(sums, from + pixel * (words / pixels) * word, SUM_BYTES * (size_t)channels);
    return true;
}

void write_sums(struct memories *memories, int64_t address, int64_t pixels, int64_t channels, const uint32_t *sums) {
    int64_t word = memories->sizes.word, words = sum_words(memories, pixels, channels);
    int8_t *to = memories->features + address * word;
    memset(to, 0, (size_t)(words * word));
    for (int64_t pixel = 0; pixel < pixels; pixel++, sums += channels)
        memcpy(to + pixel * (words / pixels) * word, sums, SUM_BYTES * (size_t)channels);
    memset(memories->features_written + address, 1, (size_t)words);
}

/* Where the parameters of a convolution lie in weight memory: words per block of output channels, of which the first
 * are entries. */
struct parameter_words {
    int64_t first, end, block, entries, in_blocks;
};

static struct parameter_words parameter_words(const struct memories *memories, const struct instruction *one) {
    const int64_t *v = one->values;
    int64_t word = memories->sizes.word, lanes = memories->sizes.oc_lanes, first = v[CONV_DENSE_PARAMETERS];
    int64_t positions = v[CONV_DENSE_KERNEL_ROWS] * v[CONV_DENSE_KERNEL_COLUMNS];
    int64_t entries = blocks(ENTRY_BYTES * lanes, word * lanes), in_blocks = blocks(v[CONV_DENSE_CHANNELS], word);
    bool depthwise = one->form->kind == CONV_DEPTHWISE;
    int64_t block = entries + (depthwise ? blocks(positions, word) : positions * in_blocks);
    return (struct parameter_words){first, first + block * blocks(v[CONV_DENSE_OUT_CHANNELS], lanes), block, entries,
                                    in_blocks};
}

bool read_parameters(struct memories *memories, const struct instruction *one, struct parameters *made) {
    const int64_t *v = one->values;
    bool depthwise = one->form->kind == CONV_DEPTHWISE;
    int64_t word = memories->sizes.word, lanes = memories->sizes.oc_lanes, row = word * lanes;
    int64_t positions = v[CONV_DENSE_KERNEL_ROWS] * v[CONV_DENSE_KERNEL_COLUMNS], out = v[CONV_DENSE_OUT_CHANNELS];
    int64_t channels = depthwise ? 1 : v[CONV_DENSE_CHANNELS];
    struct parameter_words words = parameter_words(memories, one);
    if (words.end > memories->sizes.weight_words)
        return fault(memories, "parameters: reach word %" PRId64 "; weight memory has %" PRIu32, words.end - 1,
                     memories->sizes.weight_words);
    if (memchr(memories->weights_written + words.first, 0, (size_t)(words.end - words.first)))
        return fault(memories, "parameters: words %" PRId64 " to %" PRId64 " are read before all of them are loaded",
                     words.first, words.end - 1);
    made->bias = array_of(memories, BIAS, out * (int64_t)sizeof *made->bias);
    made->shifts = array_of(memories, SHIFTS, out);
    made->multipliers = array_of(memories, MULTIPLIERS, out * (int64_t)sizeof *made->multipliers);
    made->weights = array_of(memories, WEIGHTS, positions * out * channels);
    if (!made->bias || !made->shifts || !made->multipliers || !made->weights) return false;
    for (int64_t o = 0; o < out; o++) {
        const int8_t *block = memories->weights + (words.first + o / lanes * words.block) * row,
                     *entry = block + o % lanes * ENTRY_BYTES;
        const int8_t *stored = block + words.entries * row + o % lanes * word;
        memcpy(&made->bias[o], entry, sizeof *made->bias);
        made->shifts[o] = entry[4];
        uint16_t multiplier = (uint16_t)((uint8_t)entry[5] | (uint8_t)entry[6] << 8);
        made->multipliers[o] = multiplier ? multiplier : 1;
        for (int64_t t = 0; depthwise && t < positions; t++)
            made->weights[t * out + o] = stored[t / word * row + t % word];
        for (int64_t t = 0; !depthwise && t < positions; t++)
            for (int64_t i = 0; i < words.in_blocks; i++) {
                int64_t left = channels - i * word;
                memcpy(made->weights + (t * out + o) * channels + i * word, stored + (t * words.in_blocks + i) * row,
                       (size_t)(left < word ? left : word));
            }
    }
    return true;
}
