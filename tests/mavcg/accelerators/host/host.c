/* Opens programs and runs them in all the ways that can go wrong; built with sanitizers by test_host.py.
 *
 *     host files PROGRAM..      each is opened and run on zeros; what happened is printed, a line each
 *     host faults PROGRAM       devices that lack memory, have other sizes, do not answer or stop; bad arguments */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mavcg_accel.h"
#include "mavcg_accel_simulator.h"

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

enum { MESSAGE = 256, MOST = 64 };

/* Zeros for every input, and room for every output. */
struct arrays {
    float *inputs[MOST], *outputs[MOST];
};

static void make_arrays(const mavcg_accel_program *program, struct arrays *arrays) {
    memset(arrays, 0, sizeof *arrays);
    for (int i = 0; i < mavcg_accel_input_count(program) && i < MOST; i++)
        arrays->inputs[i] = calloc(mavcg_accel_input(program, i)->elements, sizeof(float));
    for (int i = 0; i < mavcg_accel_output_count(program) && i < MOST; i++)
        arrays->outputs[i] = calloc(mavcg_accel_output(program, i)->elements, sizeof(float));
}

static void drop_arrays(struct arrays *arrays) {
    for (int i = 0; i < MOST; i++) {
        free(arrays->inputs[i]);
        free(arrays->outputs[i]);
    }
}

static int run_zeros(mavcg_accel_program *program, char *message) {
    mavcg_accel_context *context = NULL;
    struct arrays arrays;
    make_arrays(program, &arrays);
    int status = mavcg_accel_create(program, 0, 1, &context);
    if (!status) status = mavcg_accel_run(context, (const float *const *)arrays.inputs, arrays.outputs);
    snprintf(message, MESSAGE, "%s", mavcg_accel_message(context));
    mavcg_accel_destroy(context);
    drop_arrays(&arrays);
    return status;
}

static void try_file(const char *path) {
    char message[MESSAGE] = "";
    mavcg_accel_device device = {0};
    mavcg_accel_program *program = NULL;
    int status = mavcg_accel_simulator_for(path, &device, message);
    if (!status) status = mavcg_accel_open(path, &device, &program, message);
    if (!status) status = run_zeros(program, message);
    CHECK(status == 0 || *message);
    printf("%d %s\n", status, message);
    mavcg_accel_close(program);
    mavcg_accel_simulator_close(&device);
}

/* A device that fails on purpose: the simulator behind functions that intervene. */
static mavcg_accel_device inner;
static int allocations_left = 1 << 30;
static int other_id, never_finished;

static uint32_t read_some(void *context, uint32_t offset) {
    uint32_t value = inner.read(context, offset);
    if (offset == MAVCG_ACCEL_FINISHED && never_finished) return 0;
    return offset == MAVCG_ACCEL_ID && other_id ? ~value : value;
}

static int allocate_some(void *context, size_t size, mavcg_accel_memory *memory) {
    return allocations_left-- > 0 ? inner.allocate(context, size, memory) : -1;
}

static void check_memory(const char *path, const mavcg_accel_device *device) {
    char message[MESSAGE];
    for (int most = 0; most < 3; most++) {
        mavcg_accel_program *program = NULL;
        mavcg_accel_context *context = NULL;
        allocations_left = most;
        int status = mavcg_accel_open(path, device, &program, message);
        CHECK(status == (most < 2 ? MAVCG_ACCEL_NO_MEMORY : MAVCG_ACCEL_OK));
        if (!status) CHECK(mavcg_accel_create(program, 0, 0, &context) == MAVCG_ACCEL_NO_MEMORY && !context);
        mavcg_accel_close(program);
    }
    allocations_left = 1 << 30;
}

static void check_sizes(const char *path) {
    char message[MESSAGE];
    mavcg_accel_program *program = NULL;
    const mavcg_accel_sizes other = {1, 3, 5, 2, 64, 64, 2, 0};
    mavcg_accel_device device;
    CHECK(mavcg_accel_simulator_open(&other, &device) == MAVCG_ACCEL_OK);
    CHECK(mavcg_accel_open(path, &device, &program, message) == MAVCG_ACCEL_OTHER_DEVICE && !program && *message);
    mavcg_accel_simulator_close(&device);
    const mavcg_accel_sizes none = {0};
    CHECK(mavcg_accel_simulator_open(&none, &device) == MAVCG_ACCEL_BAD_ARGUMENT);
}

static void check_arguments(mavcg_accel_program *program, const mavcg_accel_device *device, const char *path) {
    mavcg_accel_context *context = NULL;
    mavcg_accel_program *none = NULL;
    CHECK(mavcg_accel_open(NULL, device, &none, NULL) == MAVCG_ACCEL_BAD_ARGUMENT);
    CHECK(mavcg_accel_open(path, NULL, &none, NULL) == MAVCG_ACCEL_BAD_ARGUMENT);
    CHECK(mavcg_accel_open(path, device, NULL, NULL) == MAVCG_ACCEL_BAD_ARGUMENT);
    CHECK(mavcg_accel_create(program, 1000, 0, &context) == MAVCG_ACCEL_BAD_ARGUMENT);
    CHECK(mavcg_accel_create(program, 0, -1, &context) == MAVCG_ACCEL_BAD_ARGUMENT);
    CHECK(mavcg_accel_create(NULL, 0, 0, &context) == MAVCG_ACCEL_BAD_ARGUMENT);
    CHECK(!mavcg_accel_input(program, -1) && !mavcg_accel_output(program, MOST) && !mavcg_accel_input(NULL, 0));
    CHECK(mavcg_accel_create(program, 0, 0, &context) == MAVCG_ACCEL_OK);
    float *nothing[MOST] = {0};
    CHECK(mavcg_accel_submit(context, (const float *const *)nothing) == MAVCG_ACCEL_BAD_ARGUMENT);
    CHECK(mavcg_accel_finish(context, nothing) == MAVCG_ACCEL_BAD_ARGUMENT);
    mavcg_accel_destroy(context);
    mavcg_accel_close(NULL);
    mavcg_accel_destroy(NULL);
}

/* Two contexts of one core take turns in its queue, segment by segment; a job that never ends times out, and can be
 * ended later. */
static void check_jobs(mavcg_accel_program *program) {
    mavcg_accel_context *first = NULL, *second = NULL;
    struct arrays arrays;
    make_arrays(program, &arrays);
    const float *const *inputs = (const float *const *)arrays.inputs;
    CHECK(mavcg_accel_create(program, 0, 1, &first) == 0 && mavcg_accel_create(program, 0, 1, &second) == 0);
    CHECK(mavcg_accel_submit(first, inputs) == 0 && mavcg_accel_submit(second, inputs) == 0);
    CHECK(mavcg_accel_submit(first, inputs) == MAVCG_ACCEL_BAD_ARGUMENT);
    never_finished = 1;
    mavcg_accel_set_timeout(first, 1);
    CHECK(mavcg_accel_finish(first, arrays.outputs) == MAVCG_ACCEL_TIMEOUT && *mavcg_accel_message(first));
    never_finished = 0;
    CHECK(mavcg_accel_finish(second, arrays.outputs) == 0 && mavcg_accel_finish(first, arrays.outputs) == 0);
    int more = 1, left = 1;
    CHECK(mavcg_accel_advance(first, &more) == MAVCG_ACCEL_BAD_ARGUMENT && !more);
    CHECK(mavcg_accel_submit(first, inputs) == 0 && mavcg_accel_submit(second, inputs) == 0);
    for (more = 1; more || left;)
        CHECK(mavcg_accel_advance(first, &more) == 0 && mavcg_accel_advance(second, &left) == 0);
    CHECK(mavcg_accel_submit(first, inputs) == MAVCG_ACCEL_BAD_ARGUMENT);
    CHECK(mavcg_accel_finish(second, arrays.outputs) == 0 && mavcg_accel_finish(first, arrays.outputs) == 0);
    mavcg_accel_destroy(second);
    mavcg_accel_destroy(first);
    drop_arrays(&arrays);
}

/* A job with more operations than it may have stops; the default limit is far above. */
static void check_limit(mavcg_accel_program *program, mavcg_accel_device *device) {
    char message[MESSAGE];
    CHECK(mavcg_accel_simulator_limit(NULL, 1) == MAVCG_ACCEL_BAD_ARGUMENT);
    CHECK(mavcg_accel_simulator_limit(device, 2) == MAVCG_ACCEL_OK);
    CHECK(run_zeros(program, message) == MAVCG_ACCEL_DEVICE_ERROR && strstr(message, "a job has 2 at most"));
    CHECK(mavcg_accel_simulator_limit(device, 0) == MAVCG_ACCEL_OK && run_zeros(program, message) == MAVCG_ACCEL_OK);
}

static void check_faults(const char *path) {
    char message[MESSAGE];
    CHECK(mavcg_accel_simulator_for(path, &inner, message) == MAVCG_ACCEL_OK);
    mavcg_accel_device device = inner;
    device.read = read_some;
    device.allocate = allocate_some;
    mavcg_accel_program *program = NULL;
    check_memory(path, &device);
    check_sizes(path);
    other_id = 1;
    CHECK(mavcg_accel_open(path, &device, &program, message) == MAVCG_ACCEL_OTHER_DEVICE);
    other_id = 0;
    CHECK(mavcg_accel_open(path, &device, &program, message) == MAVCG_ACCEL_OK);
    check_arguments(program, &device, path);
    check_jobs(program);
    check_limit(program, &inner);
    mavcg_accel_close(program);
    mavcg_accel_simulator_close(&inner);
}

int main(int count, char **arguments) {
    CHECK(count > 2);
    if (!strcmp(arguments[1], "faults")) {
        check_faults(arguments[2]);
        puts("as expected");
        return 0;
    }
    for (int i = 2; i < count; i++) try_file(arguments[i]);
    return 0;
}
