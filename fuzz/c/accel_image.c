/* Programs for accelerators as the C host side opens them: the input is a file's content. One that is opened is run on a
 * simulated device of its own sizes, with as many operations as take some milliseconds; every status must be
 * documented, with words beside it.
 *
 * A mutated file seldom has sections that agree, so that bytes are also put in place of those of a good one: the first
 * byte says whether the input is a file, or a list of (offset, length, bytes) over the program that is compiled in. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "accel_seed.h"
#include "mavcg_accel.h"
#include "mavcg_accel_simulator.h"

enum { MESSAGE = 256, MOST_TENSORS = 64, MOST_ELEMENTS = 1 << 20, DEVICE_BYTES = 64 << 20, OPERATIONS = 1 << 22 };

static int (*allocate)(void *context, size_t size, mavcg_accel_memory *memory);

/* A device has only so much memory, whatever a program asks for. */
static int allocate_some(void *context, size_t size, mavcg_accel_memory *memory) {
    return size > DEVICE_BYTES ? -1 : allocate(context, size, memory);
}

static void need(int condition) {
    if (!condition) abort();
}

static void run(mavcg_accel_program *program, char *message) {
    float *inputs[MOST_TENSORS] = {0}, *outputs[MOST_TENSORS] = {0};
    int in = mavcg_accel_input_count(program), out = mavcg_accel_output_count(program), fits = 1;
    for (int i = 0; i < in && i < MOST_TENSORS; i++) fits &= mavcg_accel_input(program, i)->elements <= MOST_ELEMENTS;
    for (int i = 0; i < out && i < MOST_TENSORS; i++) fits &= mavcg_accel_output(program, i)->elements <= MOST_ELEMENTS;
    if (in > MOST_TENSORS || out > MOST_TENSORS || !fits) return;
    for (int i = 0; i < in; i++) inputs[i] = calloc(mavcg_accel_input(program, i)->elements + 1, sizeof(float));
    for (int i = 0; i < out; i++) outputs[i] = calloc(mavcg_accel_output(program, i)->elements + 1, sizeof(float));
    mavcg_accel_context *context = NULL;
    int status = mavcg_accel_create(program, 0, 1, &context);
    need(status <= 0 && (status == 0) == (context != NULL));
    if (context) {
        mavcg_accel_set_timeout(context, 100);
        status = mavcg_accel_run(context, (const float *const *)inputs, outputs);
        need(status <= 0 && (status == 0 || *mavcg_accel_message(context)));
        mavcg_accel_cycles(context);
    }
    mavcg_accel_destroy(context);
    need(strlen(mavcg_accel_status_text(status)) > 0);
    for (int i = 0; i < MOST_TENSORS; i++) free(inputs[i]), free(outputs[i]);
    (void)message;
}

static void open_file(const char *path) {
    char message[MESSAGE] = "";
    mavcg_accel_device device = {0};
    mavcg_accel_program *program = NULL;
    int status = mavcg_accel_simulator_for(path, &device, message);
    need(status <= 0 && (status == 0 || *message) && memchr(message, 0, sizeof message));
    if (!status) {
        need(!mavcg_accel_simulator_limit(&device, OPERATIONS));
        allocate = device.allocate, device.allocate = allocate_some;
        status = mavcg_accel_open(path, &device, &program, message);
        need(status <= 0 && (status == 0) == (program != NULL) && (status == 0 || *message));
    }
    if (program) run(program, message);
    mavcg_accel_close(program);
    mavcg_accel_simulator_close(&device);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t content[sizeof accel_seed];
    static char path[64];
    static int file = -1;
    if (file < 0) {
        file = memfd_create("program", 0);
        need(file >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    const uint8_t *whole = data + (size > 0);
    size_t bytes = size - (size > 0);
    if (size && data[0] & 1) {
        memcpy(content, accel_seed, sizeof content);
        for (const uint8_t *at = whole; at + 4 <= data + size;) {
            size_t offset = (size_t)(at[0] << 8 | at[1]) % sizeof content, length = at[2] % 9, left;
            at += 3, left = (size_t)(data + size - at);
            if (length > left) length = left;
            if (length > sizeof content - offset) length = sizeof content - offset;
            memcpy(content + offset, at, length);
            at += length ? length : 1;
        }
        whole = content, bytes = sizeof content;
    }
    need(!ftruncate(file, 0) && pwrite(file, whole, bytes, 0) == (ssize_t)bytes);
    open_file(path);
    return 0;
}
