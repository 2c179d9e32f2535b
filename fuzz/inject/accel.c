/* The accelerator's host side: `accel PROGRAM`. Opens a program's file with a simulated device, runs it and closes it.
 * The product's sources are compiled with calls.h. */
#include "mavcg_accel.h"
#include "mavcg_accel_simulator.h"
#include "plan.h"

enum { MESSAGE = 256, MOST_TENSORS = 64 };

static const char *path;
static float *expected[MOST_TENSORS];

#define NEED(condition)                                                     \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            return WRONG;                                                   \
        }                                                                   \
    } while (0)

/* Runs on numbers that count up; compares with the first result, or keeps it. */
static int run_once(mavcg_accel_program *program, mavcg_accel_context *context, int keeps) {
    float *inputs[MOST_TENSORS] = {0}, *outputs[MOST_TENSORS] = {0};
    int in = mavcg_accel_input_count(program), out = mavcg_accel_output_count(program), wrong = 0;
    for (int i = 0; i < in; i++) {
        inputs[i] = calloc(mavcg_accel_input(program, i)->elements, sizeof(float));
        for (size_t k = 0; k < mavcg_accel_input(program, i)->elements; k++) inputs[i][k] = (float)(k % 11) * 0.25f - 1;
    }
    for (int i = 0; i < out; i++) outputs[i] = calloc(mavcg_accel_output(program, i)->elements, sizeof(float));
    int status = mavcg_accel_run(context, (const float *const *)inputs, outputs);
    for (int i = 0; i < out && !status; i++) {
        size_t bytes = mavcg_accel_output(program, i)->elements * sizeof(float);
        if (keeps) memcpy(expected[i] = malloc(bytes), outputs[i], bytes);
        else wrong |= memcmp(expected[i], outputs[i], bytes) != 0;
    }
    for (int i = 0; i < in; i++) free(inputs[i]);
    for (int i = 0; i < out; i++) free(outputs[i]);
    return wrong ? 1000 : status;
}

static int whole(int keeps) {
    char message[MESSAGE] = "";
    mavcg_accel_device device = {0};
    mavcg_accel_program *program = NULL;
    mavcg_accel_context *context = NULL;
    int status = mavcg_accel_simulator_for(path, &device, message);
    if (!status) status = mavcg_accel_open(path, &device, &program, message);
    if (!status) status = mavcg_accel_create(program, 0, 1, &context);
    if (!status) status = run_once(program, context, keeps);
    mavcg_accel_destroy(context);
    mavcg_accel_close(program);
    mavcg_accel_simulator_close(&device);
    return status;
}

static int operate(void) {
    arm(1);
    int status = whole(0);
    arm(0);
    NEED(status != 1000 && strlen(mavcg_accel_status_text(status)) > 0);
    NEED(status != MAVCG_ACCEL_BAD_ARGUMENT);
    NEED(whole(0) == MAVCG_ACCEL_OK);
    return status == MAVCG_ACCEL_OK ? RIGHT : REFUSED;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    path = argv[1];
    if (whole(1) != MAVCG_ACCEL_OK) {
        fprintf(stderr, "accel PROGRAM: it does not run\n");
        return 2;
    }
    return try_all("accelerator host side", operate) ? 1 : 0;
}
