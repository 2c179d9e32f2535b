/* Runs every operator of edge_app on numbers from a generator and prints one checksum of all results: the same on every
 * machine. Sizes lie around the blocks of the kernels. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "ops/ops.h"

enum { MOST = 20 * 40 };
static uint64_t state = 1, hash = 0xcbf29ce484222325u;

static uint32_t next(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static void fill_f32(float *values, size_t count) {
    for (size_t i = 0; i < count; i++) values[i] = (float)(int32_t)next() / 536870912.0f;
}

static void fill_s8(int8_t *values, size_t count) {
    for (size_t i = 0; i < count; i++) values[i] = (int8_t)next();
}

static void add(const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
}

int main(void) {
    static float a[MOST], b[MOST], bias[40], c[20 * 40 * 9];
    static int8_t a8[MOST], b8[MOST], packed[2 * MOST], c8[MOST];
    static int32_t bias32[40];
    static const int sizes[][3] = {{1, 1, 1}, {2, 8, 4}, {3, 7, 5}, {5, 17, 9}, {20, 33, 20}, {4, 40, 3}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int rows = sizes[s][0], cols = sizes[s][1], depth = sizes[s][2];
        fill_f32(a, (size_t)rows * depth), fill_f32(b, (size_t)depth * cols), fill_f32(bias, (size_t)cols);
        gemm_f32(rows, cols, depth, a, b, bias, -30.0f, 30.0f, c);
        add(c, sizeof *c * rows * cols);
        fill_s8(a8, (size_t)rows * depth), fill_s8(b8, (size_t)depth * cols);
        for (int j = 0; j < cols; j++) bias32[j] = (int32_t)next() >> 16;
        Requantize q = {-5, 3, 1500000000, -6, -128, 127};
        pack_s8(depth, cols, b8, packed);
        gemm_s8(rows, cols, depth, a8, packed, bias32, &q, c8);
        add(c8, (size_t)rows * cols);
        fill_f32(a, (size_t)rows * cols), fill_f32(b, (size_t)9 * depth), fill_f32(bias, (size_t)depth);
        fill_f32(a, (size_t)6 * 5 * 20);
        int channels = depth < 20 ? depth : 20;
        depthwise_f32(6, 5, channels, 1 + (int)(s % 2), a, b, bias, 0.0f, 6.0f, c);
        add(c, sizeof *c * (s % 2 ? 3 * 3 : 6 * 5) * channels);
        im2col_3x3(6, 5, channels, 2, a, c);
        add(c, sizeof *c * 3 * 3 * 9 * channels);
        global_mean_f32(rows, cols, a, c);
        add(c, sizeof *c * cols);
        softmax_f32(cols, a, c);
        add(c, sizeof *c * cols);
        quantize_f32((size_t)cols, 0.03f, 7, a, c8);
        dequantize_s8((size_t)cols, 0.03f, 7, c8, c);
        add(c, sizeof *c * cols);
    }
    printf("%016llx\n", (unsigned long long)hash);
    return 0;
}
