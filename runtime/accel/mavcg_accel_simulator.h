/* A simulated device: executes programs with exact results on its memory, without timing. A job runs within the write
 * to MAVCG_ACCEL_SUBMIT. These faults stop the core with an error: addresses beyond a memory, reads of on-chip words
 * that were never written, waits for tokens that no unit gives, and more operations than a job may have. */
#ifndef MAVCG_ACCEL_SIMULATOR_H
#define MAVCG_ACCEL_SIMULATOR_H 1

#include "mavcg_accel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MAVCG_ACCEL_OPERATIONS 68719476736

/* Sizes of a target, as in the registers of the same names. */
typedef struct mavcg_accel_sizes {
    uint32_t cores, word, oc_lanes, row_lanes, feature_words, weight_words, banks, rounding;
} mavcg_accel_sizes;

/* Fill in a device with these sizes; mavcg_accel_simulator_close frees it. */
int mavcg_accel_simulator_open(const mavcg_accel_sizes *sizes, mavcg_accel_device *device);
/* Fill in a device with the sizes that a program's file was built for. message: as for mavcg_accel_open. */
int mavcg_accel_simulator_for(const char *path, mavcg_accel_device *device, char *message);
/* Set how many operations a job may have; an instruction that would exceed it is not executed. Products and elements
 * that are read or written count 1, positions of windows 16. device: of mavcg_accel_simulator_open or
 * mavcg_accel_simulator_for; no other. operations: 0 for MAVCG_ACCEL_OPERATIONS, the default, which is four times
 * VGG-16's products. */
int mavcg_accel_simulator_limit(mavcg_accel_device *device, uint64_t operations);
void mavcg_accel_simulator_close(mavcg_accel_device *device);

#ifdef __cplusplus
}
#endif
#endif
