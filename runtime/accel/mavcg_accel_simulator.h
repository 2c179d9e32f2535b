/* A device that is not there: executes programs on bytes, exactly, without time. Jobs run inside of the write to
 * MAVCG_ACCEL_SUBMIT. Addresses beyond a memory, reads of words on chip that were never written, and waits for tokens
 * that nobody gives stop the core with an error. */
#ifndef MAVCG_ACCEL_SIMULATOR_H
#define MAVCG_ACCEL_SIMULATOR_H 1

#include "mavcg_accel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes of a target, as the registers of the same names give them. */
typedef struct mavcg_accel_sizes {
    uint32_t cores, word, oc_lanes, row_lanes, feature_words, weight_words, banks, rounding;
} mavcg_accel_sizes;

/* Fill in a device with these sizes. mavcg_accel_simulator_close releases it. */
int mavcg_accel_simulator_open(const mavcg_accel_sizes *sizes, mavcg_accel_device *device);
/* A device with the sizes that a program's file was built for. message: as of mavcg_accel_open. */
int mavcg_accel_simulator_for(const char *path, mavcg_accel_device *device, char *message);
void mavcg_accel_simulator_close(mavcg_accel_device *device);

#ifdef __cplusplus
}
#endif
#endif
