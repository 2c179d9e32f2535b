/* The memories of a simulated core, and the execution of a job's instructions on them. */
#ifndef MAVCG_ACCEL_EXECUTION_H
#define MAVCG_ACCEL_EXECUTION_H 1

#include <inttypes.h>

#include "decode.h"
#include "image.h"
#include "mavcg_accel_core.h"

enum { ENTRY_BYTES = 8, SUM_BYTES = 4, OP_COPY = 5 };

/* Dense arrays that instructions work on; each is kept for the next instruction, and grows. */
enum array { FIRST, SECOND, RESULT, WEIGHTS, SHIFTS, MULTIPLIERS, BIAS, SUMS, PIXELS, ARRAY_COUNT };

/* The on-chip memories, with a flag for each word that says whether it was written. computed: the tile of the last
 * instruction. fault: why an instruction cannot be executed. */
struct memories {
    mavcg_accel_sizes sizes;
    int8_t *features, *weights;
    uint8_t *features_written, *weights_written;
    void *arrays[ARRAY_COUNT];
    size_t array_bytes[ARRAY_COUNT];
    mavcg_accel_tile computed;
    char fault[MESSAGE_BYTES];
};

/* A tile in feature memory: the instruction's field that has its address, word address, distances in words between rows
 * and between blocks, and sizes. */
struct tile {
    const char *field;
    int64_t address, row, block, rows, columns, channels;
};

/* The parameters of a convolution. bias, shifts, multipliers: [out_channels]. weights:
 * [positions][out_channels][channels], without the last dimension for a depthwise convolution. */
struct parameters {
    int32_t *bias;
    uint16_t *multipliers;
    int8_t *shifts, *weights;
};

/* A job under way. tokens: from each unit to each other. operations: of the instructions so far. at: byte of the next
 * instruction. number: index of the current instruction. mnemonic: its name, "" if it is none. */
struct execution {
    struct memories *memories;
    mavcg_accel_job job;
    uint32_t tokens[UNIT_COUNT][UNIT_COUNT];
    double operations;
    size_t at;
    uint32_t number;
    const char *mnemonic;
    bool ended;
};

bool make_memories(struct memories *memories, const mavcg_accel_sizes *sizes);
void release_memories(struct memories *memories);

/* Format `fault`. Returns false, as all functions below do that find a fault. */
bool fault(struct memories *memories, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Return an array of at least this size, with any contents; NULL, with a fault, if there is no memory. */
void *array_of(struct memories *memories, enum array which, int64_t bytes);

/* True if a tile lies within feature memory and, if its rows overlap, holds no more than feature memory does. */
bool tile_fits(struct memories *memories, const struct tile *tile);
/* Return a tile as a dense array [rows][columns][channels]; NULL with a fault. */
const int8_t *read_tile(struct memories *memories, const struct tile *tile, enum array which);
bool write_tile(struct memories *memories, const struct tile *tile, const int8_t *dense);
bool load_map(struct memories *memories, const mavcg_accel_job *job, const int64_t *v);
bool save_map(struct memories *memories, const mavcg_accel_job *job, const int64_t *v);
bool load_parameters(struct memories *memories, const mavcg_accel_job *job, const int64_t *v);
/* Access 32-bit sums at a word address: [pixels][channels], in memory with channels padded to whole words. */
bool sums_fit(struct memories *memories, int64_t address, int64_t pixels, int64_t channels);
bool read_sums(struct memories *memories, int64_t address, int64_t pixels, int64_t channels, uint32_t *sums);
void write_sums(struct memories *memories, int64_t address, int64_t pixels, int64_t channels, const uint32_t *sums);
bool read_parameters(struct memories *memories, const struct instruction *one, struct parameters *made);

/* Return the number of operations that an instruction takes: products, elements that are read or written, and 16 for each
 * position of each window. */
double operations_of(const mavcg_accel_sizes *sizes, const struct instruction *one);
/* Add an instruction's operations to the job's. Returns false, with a fault, if they are more than it may have. */
bool count_operations(struct execution *execution, const struct instruction *one);

/* Execute a conv, pool or misc instruction, and store the tile that it computes in `computed`. */
bool compute(struct memories *memories, const struct instruction *one);

/* Begin a job: all words on chip count as unwritten, because a program must not read what it has not written. */
void begin_job(struct execution *execution, struct memories *memories, const mavcg_accel_job *job);
/* Execute the next instruction, and count it. Returns false at a fault, with `number` the instruction that has it. */
bool execute_next(struct execution *execution); /* not "step", which libc exports */

/* True if a device can have these sizes. */
bool are_possible(const mavcg_accel_sizes *sizes);

static inline int64_t blocks(int64_t count, int64_t size) { return (count + size - 1) / size; }

#endif
