#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 24, K = 12 };
void gemm_row(size_t columns, size_t k_bytes, const float *a, const float *packed, const float *bias, float *c);
void call_row(size_t columns, size_t k_bytes, const float *a, const float *packed, const float *bias, float *c);
float total(const float *c, int count);
typedef void row(size_t, size_t, const float *, const float *, const float *, float *);

int main(void) {
    static float a[K], packed[K * COLUMNS], bias[COLUMNS], c[COLUMNS], right[COLUMNS];
    uint32_t state = 1;
    for (int i = 0; i < K; i++) a[i] = (float)((state = state * 1664525u + 1013904223u) >> 8) / 9e6f;
    for (int i = 0; i < K * COLUMNS; i++) packed[i] = (float)((state = state * 1664525u + 1013904223u) >> 8) / 7e6f - 1;
    for (int i = 0; i < COLUMNS; i++) bias[i] = (float)i;
    for (int j = 0; j < COLUMNS; j++) {
        double sum = bias[j];
        for (int k = 0; k < K; k++) sum += (double)a[k] * packed[j / 8 * 8 * K + 8 * k + j % 8];
        right[j] = (float)sum;
    }
    row *volatile ways[] = {gemm_row, call_row};
    for (int way = 0; way < 2; way++) {
        memset(c, 0, sizeof c);
        ways[way](COLUMNS, K * sizeof(float), a, packed, bias, c);
        for (int j = 0; j < COLUMNS; j++) {
            uint32_t bits;
            memcpy(&bits, &c[j], sizeof bits);
            float off = c[j] - right[j];
            printf("%08x%s", bits, off < 1e-3f && off > -1e-3f ? " " : "! ");
        }
        printf("%a\n", (double)total(c, COLUMNS));
    }
}
