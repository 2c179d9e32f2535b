/* 3x3 depthwise convolution. Channels are neighbours in memory and independent of each other: they fill the vectors. */
#include "ops.h"

static inline float clamp(float x, float low, float high) {
    x = x < low ? low : x;
    return x > high ? high : x;
}

/* One output pixel whose nine inputs all exist: `at` is the input pixel under the filter's upper left corner. */
static inline void whole_pixel(size_t row_stride, int channels, const float *restrict at, const float *restrict filter,
                               const float *restrict bias, float low, float high, float *restrict out) {
    size_t n = (size_t)channels;
    const float *r0 = at, *r1 = at + row_stride, *r2 = at + 2 * row_stride;
    for (size_t ch = 0; ch < n; ch++) {
        float sum = bias[ch];
        sum += r0[ch] * filter[ch];
        sum += r0[n + ch] * filter[n + ch];
        sum += r0[2 * n + ch] * filter[2 * n + ch];
        sum += r1[ch] * filter[3 * n + ch];
        sum += r1[n + ch] * filter[4 * n + ch];
        sum += r1[2 * n + ch] * filter[5 * n + ch];
        sum += r2[ch] * filter[6 * n + ch];
        sum += r2[n + ch] * filter[7 * n + ch];
        sum += r2[2 * n + ch] * filter[8 * n + ch];
        out[ch] = clamp(sum, low, high);
    }
}

/* One output pixel at the border: inputs outside the image count as zero and are left out. */
static void border_pixel(int height, int width, int channels, int y0, int x0, const float *restrict in,
                         const float *restrict filter, const float *restrict bias, float low, float high,
                         float *restrict out) {
    for (int ch = 0; ch < channels; ch++)
        out[ch] = bias[ch];
    for (int ky = 0; ky < 3; ky++)
        for (int kx = 0; kx < 3; kx++) {
            int y = y0 + ky, x = x0 + kx;
            if (y < 0 || y >= height || x < 0 || x >= width)
                continue;
            const float *at = in + ((size_t)y * width + x) * channels;
            const float *tap = filter + (size_t)(3 * ky + kx) * channels;
            for (int ch = 0; ch < channels; ch++)
                out[ch] += at[ch] * tap[ch];
        }
    for (int ch = 0; ch < channels; ch++)
        out[ch] = clamp(out[ch], low, high);
}

void depthwise_f32(int height, int width, int channels, int stride, const float *restrict in,
                   const float *restrict filter, const float *restrict bias, float low, float high,
                   float *restrict out) {
    int out_h = (height - 1) / stride + 1, out_w = (width - 1) / stride + 1;
    for (int y = 0; y < out_h; y++)
        for (int x = 0; x < out_w; x++, out += channels) {
            int y0 = y * stride - 1, x0 = x * stride - 1;
            if (y0 >= 0 && y0 + 2 < height && x0 >= 0 && x0 + 2 < width)
                whole_pixel((size_t)width * channels, channels, in + ((size_t)y0 * width + x0) * channels, filter, bias,
                            low, high, out);
            else
                border_pixel(height, width, channels, y0, x0, in, filter, bias, low, high, out);
        }
}
