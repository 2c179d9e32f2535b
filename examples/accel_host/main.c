/* Runs a program of `mavcg accel build` on the simulated device, and prints its outputs' greatest elements.
 *
 *     mavcg accel build resnet50.onnx --target zu2 --board host -o resnet50.elf
 *     mavcg accel host -o host
 *     cc -O3 -D_GNU_SOURCE -Ihost main.c host/[a-z]*.c -ldl -lm -o classify
 *     ./classify resnet50.elf image.f32
 *
 * With hardware, a driver's mavcg_accel_device takes the simulator's place: nothing else changes. */
#include <stdio.h>
#include <stdlib.h>

#include "mavcg_accel.h"
#include "mavcg_accel_simulator.h"

enum { MESSAGE = 256, SHOWN = 5 };

static float *read_floats(const char *path, size_t count) {
    float *values = calloc(count, sizeof *values);
    FILE *file = values ? fopen(path, "rb") : NULL;
    size_t read = file ? fread(values, sizeof *values, count, file) : 0;
    if (file) fclose(file);
    if (values && read == count) return values;
    fprintf(stderr, "%s: %zu floats are needed, %zu could be read\n", path, count, read);
    free(values);
    return NULL;
}

static void show(const mavcg_accel_tensor *tensor, const float *values) {
    printf("%s:", tensor->name);
    float below = 0;
    for (int rank = 0; rank < SHOWN && rank < (int)tensor->elements; rank++) {
        size_t best = tensor->elements;
        for (size_t i = 0; i < tensor->elements; i++)
            if ((!rank || values[i] < below) && (best == tensor->elements || values[i] > values[best])) best = i;
        if (best == tensor->elements) break;
        below = values[best];
        printf(" %zu=%g", best, (double)below);
    }
    printf("\n");
}

/* Run one image: inputs from files, in order. Returns: an exit status. */
static int run(mavcg_accel_program *program, char **files) {
    int inputs = mavcg_accel_input_count(program), outputs = mavcg_accel_output_count(program);
    float **in = calloc((size_t)inputs + 1, sizeof *in), **out = calloc((size_t)outputs + 1, sizeof *out);
    mavcg_accel_context *context = NULL;
    int status = in && out ? mavcg_accel_create(program, 0, 0, &context) : MAVCG_ACCEL_NO_MEMORY;
    for (int i = 0; !status && i < inputs; i++)
        if (!(in[i] = read_floats(files[i], mavcg_accel_input(program, i)->elements))) status = 1;
    for (int i = 0; !status && i < outputs; i++)
        if (!(out[i] = calloc(mavcg_accel_output(program, i)->elements, sizeof **out))) status = MAVCG_ACCEL_NO_MEMORY;
    if (!status) {
        status = mavcg_accel_run(context, (const float *const *)in, out);
        if (status) fprintf(stderr, "%s\n", mavcg_accel_message(context));
    }
    for (int i = 0; !status && i < outputs; i++) show(mavcg_accel_output(program, i), out[i]);
    for (int i = 0; in && i < inputs; i++) free(in[i]);
    for (int i = 0; out && i < outputs; i++) free(out[i]);
    free(in);
    free(out);
    mavcg_accel_destroy(context);
    return status ? 1 : 0;
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: %s PROGRAM.elf INPUT.f32..\n", arguments[0]);
        return 2;
    }
    char message[MESSAGE];
    mavcg_accel_device device = {0};
    mavcg_accel_program *program = NULL;
    int status = mavcg_accel_simulator_for(arguments[1], &device, message);
    if (!status) status = mavcg_accel_open(arguments[1], &device, &program, message);
    if (status) {
        fprintf(stderr, "%s\n", message);
    } else if (count - 2 != mavcg_accel_input_count(program)) {
        fprintf(stderr, "%s: has %d inputs; give a file of floats for each\n", arguments[1],
                mavcg_accel_input_count(program));
        status = 2;
    } else {
        status = run(program, arguments + 2);
    }
    mavcg_accel_close(program);
    mavcg_accel_simulator_close(&device);
    return status ? 1 : 0;
}
