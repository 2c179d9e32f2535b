/* Single-precision matrix product by rows of the right matrix: c[i][:] += a[i][k] * b[k][:].
 *
 * Two rows of results and four steps of the depth at a time: eight products for six loads and two stores. The loop over
 * columns is the inner one; its iterations are independent, so compilers vectorise it without changing the order in
 * which a sum is added up, which is the order of the depth. */
#include "ops.h"

static void add_rows(int cols, int depth, const float *restrict a0, const float *restrict a1, const float *restrict b,
                     float *restrict c0, float *restrict c1) {
    int k = 0;
    for (; k + 4 <= depth; k += 4, b += 4 * (size_t)cols) {
        float a00 = a0[k], a01 = a0[k + 1], a02 = a0[k + 2], a03 = a0[k + 3];
        float a10 = a1[k], a11 = a1[k + 1], a12 = a1[k + 2], a13 = a1[k + 3];
        const float *b0 = b, *b1 = b0 + cols, *b2 = b1 + cols, *b3 = b2 + cols;
        for (int j = 0; j < cols; j++) {
            float s0 = c0[j], s1 = c1[j];
            s0 += a00 * b0[j];
            s1 += a10 * b0[j];
            s0 += a01 * b1[j];
            s1 += a11 * b1[j];
            s0 += a02 * b2[j];
            s1 += a12 * b2[j];
            s0 += a03 * b3[j];
            s1 += a13 * b3[j];
            c0[j] = s0;
            c1[j] = s1;
        }
    }
    for (; k < depth; k++, b += cols)
        for (int j = 0; j < cols; j++) {
            c0[j] += a0[k] * b[j];
            c1[j] += a1[k] * b[j];
        }
}

static void add_row(int cols, int depth, const float *restrict a, const float *restrict b, float *restrict c) {
    for (int k = 0; k < depth; k++, b += cols)
        for (int j = 0; j < cols; j++)
            c[j] += a[k] * b[j];
}

void gemm_f32(int rows, int cols, int depth, const float *restrict a, const float *restrict b,
              const float *restrict bias, float low, float high, float *restrict c) {
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            c[(size_t)i * cols + j] = bias[j];
    int row = 0;
    for (; row + 2 <= rows; row += 2) {
        const float *a_row = a + (size_t)row * depth;
        float *c_row = c + (size_t)row * cols;
        add_rows(cols, depth, a_row, a_row + depth, b, c_row, c_row + cols);
    }
    if (row < rows)
        add_row(cols, depth, a + (size_t)row * depth, b, c + (size_t)row * cols);
    for (size_t i = 0; i < (size_t)rows * cols; i++) {
        float x = c[i] < low ? low : c[i];
        c[i] = x > high ? high : x;
    }
}
