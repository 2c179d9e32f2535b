/* Signed bytes times signed bytes into 32-bit sums, as TFLite's quantised layers do, and back to bytes. */
#include "ops.h"

size_t packed_size_s8(int depth, int cols) {
    return (size_t)((cols + S8_COLS - 1) / S8_COLS) * (size_t)depth * S8_COLS;
}

void pack_s8(int depth, int cols, const int8_t *restrict from, int8_t *restrict packed) {
    for (int panel = 0; panel < cols; panel += S8_COLS)
        for (int k = 0; k < depth; k++)
            for (int j = 0; j < S8_COLS; j++)
                *packed++ = panel + j < cols ? from[(size_t)k * cols + panel + j] : 0;
}

int32_t requantize(int32_t sum, const Requantize *q) {
    int right = 31 - q->shift; /* at least 31, at most 62: the product has at most 62 bits */
    int64_t product = (int64_t)sum * q->multiplier;
    int64_t half = (int64_t)1 << (right - 1);
    int64_t rounded = product >= 0 ? (product + half) >> right : -((half - product) >> right);
    int64_t value = rounded + q->c_zero;
    value = value < q->low ? q->low : value;
    return (int32_t)(value > q->high ? q->high : value);
}

void gemm_s8(int rows, int cols, int depth, const int8_t *restrict a, const int8_t *restrict b,
             const int32_t *restrict bias, const Requantize *q, int8_t *restrict c) {
    int16_t a_zero = (int16_t)q->a_zero;
    for (int row = 0; row < rows; row += S8_ROWS) {
        int rows_here = rows - row < S8_ROWS ? rows - row : S8_ROWS;
        const int8_t *a0 = a + (size_t)row * depth;
        /* Rows past the end repeat the last one: their sums are not stored. */
        const int8_t *a1 = a0 + (rows_here > 1 ? depth : 0);
        const int8_t *a2 = a1 + (rows_here > 2 ? depth : 0);
        const int8_t *a3 = a2 + (rows_here > 3 ? depth : 0);
        for (int col = 0; col < cols; col += S8_COLS) {
            int cols_here = cols - col < S8_COLS ? cols - col : S8_COLS;
            const int8_t *restrict panel = b + (size_t)col * depth;
            int32_t s0[S8_COLS] = {0}, s1[S8_COLS] = {0}, s2[S8_COLS] = {0}, s3[S8_COLS] = {0};
            for (int k = 0; k < depth; k++, panel += S8_COLS) {
                /* 16-bit factors: a difference of bytes fits, and 16 x 16 -> 32 is one widening multiply. */
                int16_t x0 = (int16_t)(a0[k] - a_zero), x1 = (int16_t)(a1[k] - a_zero);
                int16_t x2 = (int16_t)(a2[k] - a_zero), x3 = (int16_t)(a3[k] - a_zero);
                for (int j = 0; j < S8_COLS; j++) {
                    int16_t w = panel[j];
                    s0[j] += x0 * w;
                    s1[j] += x1 * w;
                    s2[j] += x2 * w;
                    s3[j] += x3 * w;
                }
            }
            const int32_t *sums[S8_ROWS] = {s0, s1, s2, s3};
            for (int i = 0; i < rows_here; i++)
                for (int j = 0; j < cols_here; j++)
                    c[(size_t)(row + i) * cols + col + j] = (int8_t)requantize(sums[i][j] + bias[col + j], q);
        }
    }
}
