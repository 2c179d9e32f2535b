/* Functions that a driver's shared library exports, so that tools can open a device by the library's path. */
#ifndef MAVCG_ACCEL_DRIVER_H
#define MAVCG_ACCEL_DRIVER_H 1

#include "mavcg_accel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fill in a device. argument: a text of the user, such as the path of a device file; "" for none. Returns 0 on success;
 * another value on failure, with a text of at most 255 bytes in message. */
int mavcg_accel_driver_open(const char *argument, mavcg_accel_device *device, char *message);
void mavcg_accel_driver_close(mavcg_accel_device *device);

#ifdef __cplusplus
}
#endif
#endif
