/* Programs as networks of a service: the simulated device behind functions that time its simulation. */
#include "mavcg_accel_service.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "mavcg_accel_simulator.h"
#include "program.h"

/* A simulated device. simulation_ns: time in which it computed jobs. */
struct timed_device {
    mavcg_accel_device simulator, device;
    uint64_t simulation_ns;
};

struct mavcg_accel_service {
    struct timed_device timed;
    mavcg_accel_program *program;
    uint32_t slots, parts;
    mavcg_accel_context **contexts; /* [slots] */
    uint64_t *part_ns;              /* [parts] */
    char message[MESSAGE_BYTES];
};

static uint64_t clock_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static const mavcg_accel_device *simulator_of(void *context) { return &((struct timed_device *)context)->simulator; }

static uint32_t timed_read(void *context, uint32_t offset) {
    return simulator_of(context)->read(simulator_of(context)->context, offset);
}

static void timed_write(void *context, uint32_t offset, uint32_t value) {
    uint64_t begin = clock_ns();
    simulator_of(context)->write(simulator_of(context)->context, offset, value);
    if (offset == MAVCG_ACCEL_SUBMIT) ((struct timed_device *)context)->simulation_ns += clock_ns() - begin;
}

static int timed_allocate(void *context, size_t size, mavcg_accel_memory *memory) {
    return simulator_of(context)->allocate(simulator_of(context)->context, size, memory);
}

static void timed_release(void *context, mavcg_accel_memory *memory) {
    simulator_of(context)->release(simulator_of(context)->context, memory);
}

static void timed_sync(void *context, const mavcg_accel_memory *memory, enum mavcg_accel_direction direction) {
    simulator_of(context)->sync(simulator_of(context)->context, memory, direction);
}

static int timed_wait(void *context, uint32_t milliseconds) {
    return simulator_of(context)->wait(simulator_of(context)->context, milliseconds);
}

static const char *timed_message(void *context) {
    return simulator_of(context)->message(simulator_of(context)->context);
}

static int open_program(mavcg_accel_service *made, const char *path, char *message) {
    struct timed_device *timed = &made->timed;
    int status = mavcg_accel_simulator_for(path, &timed->simulator, message);
    if (status) return status;
    timed->device = (mavcg_accel_device){timed,         timed_read, timed_write, timed_allocate,
                                         timed_release, timed_sync, timed_wait,  timed_message};
    status = mavcg_accel_open(path, &timed->device, &made->program, message);
    for (int i = 0; !status && i < mavcg_accel_segment_count(made->program); i++)
        if (!mavcg_accel_segment_ns(made->program, i))
            status = fail(message, MAVCG_ACCEL_BAD_FILE, "%.180s: has no simulated times; build it again", path);
    return status;
}

int mavcg_accel_service_open(const char *path, uint32_t slots, int threads, mavcg_accel_service **service,
                             char *message) {
    if (message) *message = 0;
    if (!path || !slots || threads < 0 || !service)
        return fail(message, MAVCG_ACCEL_BAD_ARGUMENT, "mavcg_accel_service_open: a bad argument");
    *service = NULL;
    mavcg_accel_service *made = calloc(1, sizeof *made);
    if (!made) return MAVCG_ACCEL_NO_MEMORY;
    int status = open_program(made, path, message);
    if (!status) {
        made->parts = (uint32_t)mavcg_accel_segment_count(made->program) + 1;
        made->part_ns = calloc(made->parts, sizeof *made->part_ns);
        made->contexts = calloc(slots, sizeof(void *));
        if (made->contexts) made->slots = slots;
        if (!made->part_ns || !made->contexts) status = MAVCG_ACCEL_NO_MEMORY;
    }
    for (uint32_t i = 0; !status && i < slots; i++)
        status = mavcg_accel_create(made->program, 0, threads, &made->contexts[i]);
    if (status) mavcg_accel_service_close(made);
    else *service = made;
    return status;
}

void mavcg_accel_service_close(mavcg_accel_service *service) {
    if (!service) return;
    for (uint32_t i = 0; i < service->slots; i++) mavcg_accel_destroy(service->contexts[i]);
    free(service->contexts);
    free(service->part_ns);
    mavcg_accel_close(service->program);
    mavcg_accel_simulator_close(&service->timed.simulator);
    free(service);
}

/* Run a part, and submit the segment after it, which the simulated device computes meanwhile. Returns a status of the
 * host side. */
static int run_on_host(mavcg_accel_service *service, mavcg_accel_context *context, uint32_t part,
                       const void *const *inputs, void *const *outputs) {
    int more;
    if (!part) return mavcg_accel_submit(context, (const float *const *)inputs);
    if (part + 1 < service->parts) return mavcg_accel_advance(context, &more);
    return mavcg_accel_finish(context, (float *const *)outputs);
}

static int run_part(void *data, uint32_t slot, uint32_t part, const void *const *inputs, void *const *outputs,
                    uint64_t *segment_ns, uint64_t *left_out_ns) {
    mavcg_accel_service *service = data;
    service->timed.simulation_ns = 0;
    uint64_t begin = clock_ns();
    int status = run_on_host(service, service->contexts[slot], part, inputs, outputs);
    uint64_t own = clock_ns() - begin - service->timed.simulation_ns;
    if (own > service->part_ns[part]) service->part_ns[part] = own;
    *segment_ns = mavcg_accel_segment_ns(service->program, (int)part);
    *left_out_ns = service->timed.simulation_ns;
    if (!status) return MAVCG_OK;
    const char *text = mavcg_accel_message(service->contexts[slot]);
    snprintf(service->message, sizeof service->message, "%s", *text ? text : mavcg_accel_status_text(status));
    return MAVCG_ERROR_ACCELERATOR;
}

void mavcg_accel_service_network(mavcg_accel_service *service, uint32_t accelerator, mavcg_accelerated *network) {
    if (!service || !network) return;
    service->message[0] = 0;
    *network = (mavcg_accelerated){service, accelerator, service->parts, service->slots, 0, run_part};
}

const mavcg_accel_program *mavcg_accel_service_program(const mavcg_accel_service *service) {
    return service ? service->program : NULL;
}

uint64_t mavcg_accel_service_take_part_ns(mavcg_accel_service *service, uint32_t part) {
    if (!service || part >= service->parts) return 0;
    uint64_t longest = service->part_ns[part];
    service->part_ns[part] = 0;
    return longest;
}

const char *mavcg_accel_service_message(const mavcg_accel_service *service) { return service ? service->message : ""; }
