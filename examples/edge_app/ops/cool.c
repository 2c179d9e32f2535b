/* Operators that take little time: patches, mean, quantisation, softmax, argmax. */
#include <string.h>

#include "ops.h"

void im2col_3x3(int height, int width, int channels, int stride, const float *restrict in, float *restrict out) {
    int out_h = (height - 1) / stride + 1, out_w = (width - 1) / stride + 1;
    for (int y = 0; y < out_h; y++)
        for (int x = 0; x < out_w; x++)
            for (int ky = 0; ky < 3; ky++)
                for (int kx = 0; kx < 3; kx++, out += channels) {
                    int in_y = y * stride + ky - 1, in_x = x * stride + kx - 1;
                    if (in_y < 0 || in_y >= height || in_x < 0 || in_x >= width)
                        memset(out, 0, (size_t)channels * sizeof *out);
                    else
                        memcpy(out, in + ((size_t)in_y * width + in_x) * channels, (size_t)channels * sizeof *out);
                }
}

void global_mean_f32(int pixels, int channels, const float *restrict in, float *restrict out) {
    for (int ch = 0; ch < channels; ch++)
        out[ch] = 0.0f;
    for (int pixel = 0; pixel < pixels; pixel++, in += channels)
        for (int ch = 0; ch < channels; ch++)
            out[ch] += in[ch];
    for (int ch = 0; ch < channels; ch++)
        out[ch] /= (float)pixels;
}

void quantize_f32(size_t count, float scale, int32_t zero, const float *restrict in, int8_t *restrict out) {
    for (size_t i = 0; i < count; i++) {
        float scaled = in[i] / scale;
        int32_t rounded = (int32_t)(scaled < 0 ? scaled - 0.5f : scaled + 0.5f) + zero;
        rounded = rounded < -128 ? -128 : rounded;
        out[i] = (int8_t)(rounded > 127 ? 127 : rounded);
    }
}

void dequantize_s8(size_t count, float scale, int32_t zero, const int8_t *restrict in, float *restrict out) {
    for (size_t i = 0; i < count; i++)
        out[i] = (float)(in[i] - zero) * scale;
}

float exp_f32(float x) {
    /* exp(x) = 2^n * exp(r), r = x - n ln 2 in [-ln 2 / 2, ln 2 / 2], by its Taylor series to the seventh power. */
    if (x < -87.0f)
        return 0.0f;
    if (x > 88.0f)
        x = 88.0f;
    float scaled = x * 1.44269504f;
    int n = (int)(scaled < 0 ? scaled - 0.5f : scaled + 0.5f);
    float r = x - (float)n * 0.693359375f - (float)n * -2.12194440e-4f; /* ln 2 in two parts, the first exact */
    float sum = 1.0f / 5040;
    sum = sum * r + 1.0f / 720;
    sum = sum * r + 1.0f / 120;
    sum = sum * r + 1.0f / 24;
    sum = sum * r + 1.0f / 6;
    sum = sum * r + 0.5f;
    sum = sum * r + 1.0f;
    sum = sum * r + 1.0f;
    uint32_t bits = (uint32_t)(n + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

void softmax_f32(int count, const float *restrict in, float *restrict out) {
    float top = in[argmax_f32(count, in)], sum = 0.0f;
    for (int i = 0; i < count; i++)
        sum += out[i] = exp_f32(in[i] - top);
    for (int i = 0; i < count; i++)
        out[i] /= sum;
}

int argmax_f32(int count, const float *restrict in) {
    int best = 0;
    for (int i = 1; i < count; i++)
        if (in[i] > in[best])
            best = i;
    return best;
}
