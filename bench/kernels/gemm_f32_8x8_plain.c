/* The same product in plain C: the compiler chooses vectors, unrolling and registers. */
void gemm_f32_8x8_plain(long depth, const float *restrict rows, const float *restrict columns, float *restrict out) {
    float sum[8][8];
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 8; c++) sum[r][c] = out[8 * r + c];
    for (long k = 0; k < depth; k++)
        for (int r = 0; r < 8; r++)
            for (int c = 0; c < 8; c++) sum[r][c] += rows[8 * k + r] * columns[8 * k + c];
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 8; c++) out[8 * r + c] = sum[r][c];
}
