/* Runs the networks of an application as periodic jobs, by the clock and the contexts of this process. */
#ifndef MAVCG_APPLICATION_SERVICE_H
#define MAVCG_APPLICATION_SERVICE_H

#include <stdint.h>

#include "application_api.h"
#include "application_memory.h"
#include "internal.h"

/* The networks of an application. state: 0, or flags of the service that is active; lives as long as the application. */
struct served_application {
    const struct application_network *const *functions; /* [count] */
    const mavcg_app_network *placed;                    /* [count] */
    void *const *contexts;                              /* [count] */
    uint32_t count;
    uint32_t *state;
};

/* Run a service in the calling thread, with networks on accelerators. Returns a status: MAVCG_BUSY if one is
 * active, MAVCG_ERROR_OPTION also for networks of which one may preempt another in whose memory its buffers lie. */
MAVCG_PRIVATE int serve_application(const struct served_application *application, mavcg_service *service,
                                    const mavcg_accelerated *accelerated, uint32_t accelerated_count);

/* Let the active service begin no further job. Without one there is no effect. */
MAVCG_PRIVATE void stop_application_service(uint32_t *state);

#endif
