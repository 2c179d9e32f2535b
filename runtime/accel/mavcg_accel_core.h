/* One core of the simulated device by itself: it executes a program instruction by instruction, in program order, with
 * exact results and without timing. It stops at reads of bytes that were never written, also off chip, at addresses
 * beyond a memory, and at waits for tokens that no earlier instruction gives. */
#ifndef MAVCG_ACCEL_CORE_H
#define MAVCG_ACCEL_CORE_H 1

#include "mavcg_accel_simulator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A program in memory, which must outlive the core. features_written: a flag for each byte of the features segment, 0
 * until something is written to the byte; NULL: every byte may be read. most_operations: limit of its operations, as for
 * mavcg_accel_simulator_limit. */
typedef struct mavcg_accel_job {
    const unsigned char *code, *parameters;
    unsigned char *features, *features_written;
    size_t code_bytes, parameter_bytes, feature_bytes;
    uint64_t most_operations;
} mavcg_accel_job;

/* The tile that an instruction computed, dense, [rows][columns][channels]. It is valid until the next instruction.
 * bytes: NULL if the instruction computed none. */
typedef struct mavcg_accel_tile {
    const int8_t *bytes;
    int64_t rows, columns, channels;
} mavcg_accel_tile;

typedef struct mavcg_accel_core mavcg_accel_core;

/* Make a core with memories of these sizes and the job's first instruction next. Returns a status. */
int mavcg_accel_core_open(const mavcg_accel_sizes *sizes, const mavcg_accel_job *job, mavcg_accel_core **core);
/* Execute the next instruction. tile: receives what it computed. message: receives a text about a fault (at most 256
 * bytes, NUL included). Returns 1 if more instructions follow, 0 after misc.end, a status below 0 for a fault. */
int mavcg_accel_core_step(mavcg_accel_core *core, mavcg_accel_tile *tile, char *message);
void mavcg_accel_core_close(mavcg_accel_core *core);

#ifdef __cplusplus
}
#endif
#endif
