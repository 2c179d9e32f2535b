/* The two matrix products that a TFLite of 2020 was built on, each behind one C function. */
#ifndef GEMM_LIBRARIES_OPS_H
#define GEMM_LIBRARIES_OPS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How the left matrix lies in memory; the right and the result are column-major, as TFLite maps its tensors. */
enum { LEFT_ROW_MAJOR = 0, LEFT_COL_MAJOR = 1 };

/* out[rows x cols] = left[rows x depth] * right[depth x cols] + bias[rows], clamped to low..high. Eigen.
 * 0; 1 when memory is short. */
int eigen_gemm_f32(int left_order, int rows, int cols, int depth, const float *left, const float *right,
                   const float *bias, float low, float high, float *out);

/* How 32-bit sums become bytes: (sum + bias) * multiplier * 2^(exponent - 31), plus zero, clamped to low..high. */
typedef struct {
    int32_t left_offset, right_offset; /* added to each byte before the product */
    int32_t multiplier;                /* [2^30, 2^31) */
    int32_t exponent;
    int32_t zero, low, high;
} Requantization;

/* out[rows x cols] = requantised left[rows x depth, row-major] * right[depth x cols, column-major]; gemmlowp.
 * out is column-major; left holds no byte 0 (TFLite's weights, 1..255). */
void gemmlowp_gemm_u8(int rows, int cols, int depth, const uint8_t *left, const uint8_t *right, const int32_t *bias,
                      const Requantization *q, uint8_t *out);

/* The same product without an output pipeline: 32-bit sums. left may hold any byte. */
void gemmlowp_gemm_s32(int rows, int cols, int depth, const uint8_t *left, const uint8_t *right, int32_t left_offset,
                       int32_t right_offset, int32_t *out);

#ifdef __cplusplus
}
#endif
#endif
