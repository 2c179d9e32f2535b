/* fp32, 8 rows x 12 columns: the tiling of Arm's a64_sgemm_8x12. One step of the depth is five loads and 24 fmla.
   With ONE_STEP the compiler is asked not to unroll it further. */
#include <arm_neon.h>

void gemm_f32_8x12(long depth, const float *restrict rows, const float *restrict columns, float *restrict out) {
    float32x4_t sum[8][3];
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 3; c++) sum[r][c] = vld1q_f32(out + 12 * r + 4 * c);
#ifdef ONE_STEP
#pragma clang loop unroll(disable)
#endif
    do {
        float32x4_t a0 = vld1q_f32(rows), a1 = vld1q_f32(rows + 4);
        for (int c = 0; c < 3; c++) {
            float32x4_t b = vld1q_f32(columns + 4 * c);
            sum[0][c] = vfmaq_laneq_f32(sum[0][c], b, a0, 0);
            sum[1][c] = vfmaq_laneq_f32(sum[1][c], b, a0, 1);
            sum[2][c] = vfmaq_laneq_f32(sum[2][c], b, a0, 2);
            sum[3][c] = vfmaq_laneq_f32(sum[3][c], b, a0, 3);
            sum[4][c] = vfmaq_laneq_f32(sum[4][c], b, a1, 0);
            sum[5][c] = vfmaq_laneq_f32(sum[5][c], b, a1, 1);
            sum[6][c] = vfmaq_laneq_f32(sum[6][c], b, a1, 2);
            sum[7][c] = vfmaq_laneq_f32(sum[7][c], b, a1, 3);
        }
        rows += 8;
        columns += 12;
    } while (--depth);
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 3; c++) vst1q_f32(out + 12 * r + 4 * c, sum[r][c]);
}
