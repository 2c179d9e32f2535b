/* A program of `mavcg accel build` as a network of a service (application_api.h): its CPU parts run on the processor as
 * sections of jobs, its segments on a simulated device.
 *
 * The device computes a segment within the call that submits it, and exactly. The service counts another time for it:
 * the accelerator is occupied for the segment's simulated cycles at the target's frequency, while the service's clock
 * stands still in the simulation itself. What the host does for a segment, such as quantising, counts as the CPU's. */
#ifndef MAVCG_ACCEL_SERVICE_H
#define MAVCG_ACCEL_SERVICE_H 1

#include "application_api.h"
#include "mavcg_accel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mavcg_accel_service mavcg_accel_service;

/* Open a program and a simulated device of its sizes, with a context for each of `slots` jobs under way. A network keeps
 * all deadlines only if slots * period is no less than the deadline. threads: as for mavcg_accel_create. message: as for
 * mavcg_accel_open. MAVCG_ACCEL_BAD_FILE also for a program without simulated times, as earlier builds wrote it. */
int mavcg_accel_service_open(const char *path, uint32_t slots, int threads, mavcg_accel_service **service,
                             char *message);
/* No service may be running. NULL is fine. */
void mavcg_accel_service_close(mavcg_accel_service *service);

/* Fill in the network, for serve_accelerated; it may be used until the close. accelerator: number of the accelerator,
 * which networks share. */
void mavcg_accel_service_network(mavcg_accel_service *service, uint32_t accelerator, mavcg_accelerated *network);
/* The program, for its inputs, outputs and segments: inputs and outputs of the network are those of mavcg_accel_run. */
const mavcg_accel_program *mavcg_accel_service_program(const mavcg_accel_service *service);
/* Return the longest time that a part has taken on the processor since the open or the last call, in ns, and forget it;
 * 0 if there is no such part. */
uint64_t mavcg_accel_service_take_part_ns(mavcg_accel_service *service, uint32_t part);
/* Return a text about the last job that ended with MAVCG_ERROR_ACCELERATOR since mavcg_accel_service_network, or "". */
const char *mavcg_accel_service_message(const mavcg_accel_service *service);

#ifdef __cplusplus
}
#endif
#endif
