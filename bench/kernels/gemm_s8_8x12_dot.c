/* int8 by dot products, 8 rows x 12 columns, four steps of the depth at once: the tiling of Arm's a64_gemm_s8_8x12.
   With ONE_STEP the compiler is asked not to unroll it further. */
#include <arm_neon.h>

void gemm_s8_8x12_dot(long depth, const signed char *restrict rows, const signed char *restrict columns,
                      int *restrict out) {
    int32x4_t sum[8][3];
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 3; c++) sum[r][c] = vld1q_s32(out + 12 * r + 4 * c);
#ifdef ONE_STEP
#pragma clang loop unroll(disable)
#endif
    do {
        int8x16_t a0 = vld1q_s8(rows), a1 = vld1q_s8(rows + 16);
        for (int c = 0; c < 3; c++) {
            int8x16_t b = vld1q_s8(columns + 16 * c);
            sum[0][c] = vdotq_laneq_s32(sum[0][c], b, a0, 0);
            sum[1][c] = vdotq_laneq_s32(sum[1][c], b, a0, 1);
            sum[2][c] = vdotq_laneq_s32(sum[2][c], b, a0, 2);
            sum[3][c] = vdotq_laneq_s32(sum[3][c], b, a0, 3);
            sum[4][c] = vdotq_laneq_s32(sum[4][c], b, a1, 0);
            sum[5][c] = vdotq_laneq_s32(sum[5][c], b, a1, 1);
            sum[6][c] = vdotq_laneq_s32(sum[6][c], b, a1, 2);
            sum[7][c] = vdotq_laneq_s32(sum[7][c], b, a1, 3);
        }
        rows += 32;
        columns += 48;
    } while (--depth);
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 3; c++) vst1q_s32(out + 12 * r + 4 * c, sum[r][c]);
}
