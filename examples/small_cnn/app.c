/* What a program does with a model library: make a context, run it, read the answer. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "small_cnn.h"

enum { SIDE = 128, CHANNELS = 3, CLASSES = 10 };

/* A picture that is the same on every machine: -1 to 1, in steps that f32 has exactly. */
static void draw(float *picture) {
    uint32_t state = 1;
    for (int i = 0; i < CHANNELS * SIDE * SIDE; i++) {
        state = state * 1664525u + 1013904223u;
        picture[i] = (float)(int32_t)(state >> 24) / 128.0f - 1.0f;
    }
}

int main(int count, char **arguments) {
    static float picture[CHANNELS * SIDE * SIDE], probabilities[CLASSES];
    const void *inputs[] = {picture};
    void *outputs[] = {probabilities};
    draw(picture);

    small_cnn_options options = {.threads = count > 1 ? atoi(arguments[1]) : 1};
    small_cnn_context *context;
    int status = small_cnn_create(&options, &context);
    if (status == MAVCG_OK) status = small_cnn_run(context, inputs, outputs);
    small_cnn_destroy(context);
    if (status != MAVCG_OK) {
        fprintf(stderr, "small_cnn: %s\n", small_cnn_error_text(status));
        return 1;
    }

    uint32_t checksum = 2166136261u; /* FNV-1a over the bits of all outputs */
    int best = 0;
    for (int i = 0; i < CLASSES; i++) {
        uint32_t bits;
        memcpy(&bits, &probabilities[i], sizeof bits);
        checksum = (checksum ^ bits) * 16777619u;
        if (probabilities[i] > probabilities[best]) best = i;
    }
    printf("class %d, probability %.4f, checksum %08" PRIx32 "\n", best, probabilities[best], checksum);
    return 0;
}
