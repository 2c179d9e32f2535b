/* A program that uses a model library by its header, and the header of another model beside it. */
#include <stdio.h>
#include <stdlib.h>

#include "exercise.h"
#include "other_model.h"

int main(void) {
    static float x[1000], y[1000];
    static int ms[1], who[96], naps[3];
    static unsigned modes[96];
    static unsigned char intact[96];
    const void *inputs[] = {x, ms};
    void *outputs[] = {y, who, modes, intact, naps};
    exercise_options options = {2, 0, {0, 0}};
    exercise_context *context = NULL;
    other_model_context *other = NULL;
    int status = exercise_create(&options, &context);
    if (status == MAVCG_OK) status = exercise_run(context, inputs, outputs);
    if (status == MAVCG_OK) printf("%g\n", y[1]);
    if (status == MAVCG_OK) status = other_model_create(NULL, &other);
    if (status == MAVCG_OK) status = other_model_run(other, inputs, outputs);
    if (status == MAVCG_OK) printf("%g %d\n", y[1], other_model_threads(other));
    printf("%s\n", exercise_error_text(status));
    exercise_destroy(context);
    other_model_destroy(other);
    return status;
}
