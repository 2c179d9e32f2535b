/* The operators of edge_app: plain C, one function each, no memory of their own.
 *
 * Tensors are NHWC. Floating point is added up in one fixed order, with -ffp-contract=off (see Makefile), so that the
 * same bits come out of every compiler and processor that follows IEEE 754. */
#ifndef EDGE_OPS_H
#define EDGE_OPS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define restrict __restrict__
#endif

/* c[rows][cols] = clamp(bias[cols] + a[rows][depth] * b[depth][cols], low, high); c does not overlap the inputs. */
void gemm_f32(int rows, int cols, int depth, const float *restrict a, const float *restrict b,
              const float *restrict bias, float low, float high, float *restrict c);

/* The block of results that gemm_s8 keeps in registers. */
enum { S8_ROWS = 4, S8_COLS = 8 };

/* Bytes of a packed [depth][cols] matrix: panels of S8_COLS columns, the last one padded with zeros. */
size_t packed_size_s8(int depth, int cols);
void pack_s8(int depth, int cols, const int8_t *restrict from, int8_t *restrict packed);

/* How 32-bit sums become bytes again: value * multiplier * 2^(shift - 31), rounded half away from zero, plus the
 * zero point. multiplier: [2^30, 2^31); shift: at most 0. */
typedef struct {
    int32_t a_zero, c_zero; /* zero points of the left matrix and of the result */
    int32_t multiplier;
    int shift;
    int32_t low, high; /* clamp of the result */
} Requantize;

/* c = requantize((a - a_zero) * b + bias): a signed bytes [rows][depth], b signed bytes (packed, zero point 0). */
void gemm_s8(int rows, int cols, int depth, const int8_t *restrict a, const int8_t *restrict b,
             const int32_t *restrict bias, const Requantize *q, int8_t *restrict c);
int32_t requantize(int32_t sum, const Requantize *q);

/* 3x3 depthwise convolution with a border of one zero: in [height][width][channels],
 * out [(height - 1) / stride + 1][(width - 1) / stride + 1][channels], filter [3][3][channels]. */
void depthwise_f32(int height, int width, int channels, int stride, const float *restrict in,
                   const float *restrict filter, const float *restrict bias, float low, float high,
                   float *restrict out);

/* 3x3 patches with a border of one zero, one row per output pixel: out [out_h * out_w][9 * channels]. */
void im2col_3x3(int height, int width, int channels, int stride, const float *restrict in, float *restrict out);

/* Mean over height and width: out [channels]. */
void global_mean_f32(int pixels, int channels, const float *restrict in, float *restrict out);

/* value = (byte - zero) * scale; quantize rounds half away from zero and clamps to [-128, 127]. */
void quantize_f32(size_t count, float scale, int32_t zero, const float *restrict in, int8_t *restrict out);
void dequantize_s8(size_t count, float scale, int32_t zero, const int8_t *restrict in, float *restrict out);

/* exp(in - max) / sum, with an exponential of our own: C libraries differ in the last bit. */
void softmax_f32(int count, const float *restrict in, float *restrict out);
float exp_f32(float x);
int argmax_f32(int count, const float *restrict in);

#ifdef __cplusplus
#undef restrict
}
#endif
#endif
