/* A driver for the tests: the simulated device of a zu2, whose cycles are a job's bytes of code, the argument's number
 * and 2^33. */
#include <stdio.h>
#include <stdlib.h>

#include "mavcg_accel_driver.h"
#include "mavcg_accel_simulator.h"

static mavcg_accel_device simulated;
static uint32_t code_bytes, extra;

static uint32_t read_register(void *context, uint32_t offset) {
    if (offset == MAVCG_ACCEL_CYCLES) return code_bytes + extra;
    if (offset == MAVCG_ACCEL_CYCLES + 4) return 2;
    return simulated.read(context, offset);
}

static void write_register(void *context, uint32_t offset, uint32_t value) {
    if (offset == MAVCG_ACCEL_CODE_BYTES) code_bytes = value;
    simulated.write(context, offset, value);
}

int mavcg_accel_driver_open(const char *argument, mavcg_accel_device *device, char *message) {
    char *end;
    extra = (uint32_t)strtoul(argument, &end, 10);
    if (*end) {
        snprintf(message, 256, "no device of this number: %.100s", argument);
        return -1;
    }
    mavcg_accel_sizes zu2 = {1, 12, 12, 4, 38229, 1365, 16, 0};
    int status = mavcg_accel_simulator_open(&zu2, &simulated);
    *device = simulated;
    device->read = read_register;
    device->write = write_register;
    return status;
}

void mavcg_accel_driver_close(mavcg_accel_device *device) { mavcg_accel_simulator_close(device); }
