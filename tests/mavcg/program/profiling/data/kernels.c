/* Kernels of each class under names that say nothing; tests/mavcg/program/profiling/test_code_class.py has their classes. */
#include <stdint.h>
float expf(float);
float sqrtf(float);

void f1(const float *restrict x, const float *restrict w, float *restrict y, int oc, int h, int b, int ic) {
    for (int o = 0; o < oc; o++)
        for (int i = 0; i < h; i++)
            for (int j = 0; j < b; j++) {
                float s = 0;
                for (int c = 0; c < ic; c++)
                    for (int p = 0; p < 3; p++)
                        for (int q = 0; q < 3; q++)
                            s += x[(c * (h + 2) + i + p) * (b + 2) + j + q] * w[((o * ic + c) * 3 + p) * 3 + q];
                y[(o * h + i) * b + j] = s;
            }
}
void f2(const float *restrict a, const float *restrict b, float *restrict c, int m, int n, int k) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float s = 0;
            for (int p = 0; p < k; p++) s += a[i * k + p] * b[p * n + j];
            c[i * n + j] = s;
        }
}
void f3(const float *restrict a, const float *restrict b, float *restrict c, int m, int n, int k) {
    for (int i = 0; i < m; i++)
        for (int p = 0; p < k; p++)
            for (int j = 0; j < n; j++) c[i * n + j] += a[i * k + p] * b[p * n + j];
}
void f4(const int8_t *restrict a, const int8_t *restrict b, int32_t *restrict c, int m, int n, int k) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            int32_t s = 0;
            for (int p = 0; p < k; p++) s += a[i * k + p] * b[j * k + p];
            c[i * n + j] = s;
        }
}
void f5(const float *restrict x, const float *restrict w, float *restrict y, int ch, int h, int b) {
    for (int c = 0; c < ch; c++)
        for (int i = 0; i < h; i++)
            for (int j = 0; j < b; j++) {
                float s = 0;
                for (int p = 0; p < 3; p++)
                    for (int q = 0; q < 3; q++) s += x[(c * (h + 2) + i + p) * (b + 2) + j + q] * w[c * 9 + p * 3 + q];
                y[(c * h + i) * b + j] = s;
            }
}
void f6(const float *restrict x, const float *restrict w, float *restrict y, int ch, int h, int b, int kh, int kw) {
    for (int c = 0; c < ch; c++)
        for (int i = 0; i < h; i++)
            for (int j = 0; j < b; j++) {
                float s = 0;
                for (int p = 0; p < kh; p++)
                    for (int q = 0; q < kw; q++)
                        s += x[(c * (h + kh) + i + p) * (b + kw) + j + q] * w[(c * kh + p) * kw + q];
                y[(c * h + i) * b + j] = s;
            }
}
void f7(const float *restrict x, const float *restrict w, float *restrict y, int h, int b, int kh, int kw, int ch) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < b; j++)
            for (int p = 0; p < kh; p++)
                for (int q = 0; q < kw; q++)
                    for (int c = 0; c < ch; c++)
                        y[(i * b + j) * ch + c] += x[((i + p) * b + j + q) * ch + c] * w[(p * kw + q) * ch + c];
}
void f8(const float *restrict x, float *restrict y, int m, int n) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) y[j * m + i] = x[i * n + j];
}
void f9(const float *restrict x, float *restrict y, int n, int k, int ld) {
    for (int j = 0; j < n; j += 4)
        for (int p = 0; p < k; p++)
            for (int q = 0; q < 4; q++) *y++ = x[p * ld + j + q];
}
void f10(const float *restrict x, float *restrict y, int ch, int h, int b, int k) {
    for (int c = 0; c < ch; c++)
        for (int i = 0; i < h; i++)
            for (int j = 0; j < b; j++) {
                float s = x[(c * h + i) * b + j];
                for (int p = 0; p < k; p++)
                    for (int q = 0; q < k; q++) {
                        float v = x[((c * h + i) * k + p) * b * k + j * k + q];
                        s = v > s ? v : s;
                    }
                y[(c * h + i) * b + j] = s;
            }
}
void f11(const float *restrict x, float *restrict y, int ch, int h, int b, int k) {
    for (int c = 0; c < ch; c++)
        for (int i = 0; i < h; i++)
            for (int j = 0; j < b; j++) {
                float s = 0;
                for (int p = 0; p < k; p++)
                    for (int q = 0; q < k; q++) s += x[((c * h + i) * k + p) * b * k + j * k + q];
                y[(c * h + i) * b + j] = s / (float)(k * k);
            }
}
void f12(const float *restrict x, float *restrict y, int n) {
    float top = x[0], s = 0;
    for (int i = 1; i < n; i++) top = x[i] > top ? x[i] : top;
    for (int i = 0; i < n; i++) s += y[i] = expf(x[i] - top);
    for (int i = 0; i < n; i++) y[i] /= s;
}
void f13(const float *restrict x, const float *restrict g, const float *restrict b, float *restrict y, int m, int n) {
    for (int i = 0; i < m; i++, x += n, y += n) {
        float s = 0, v = 0;
        for (int j = 0; j < n; j++) s += x[j];
        s /= (float)n;
        for (int j = 0; j < n; j++) v += (x[j] - s) * (x[j] - s);
        v = 1 / sqrtf(v / (float)n + 1e-5f);
        for (int j = 0; j < n; j++) y[j] = (x[j] - s) * v * g[j] + b[j];
    }
}
void f14(const float *restrict x, float *restrict y, int n) {
    for (int i = 0; i < n; i++) y[i] = x[i] > 0 ? x[i] : 0;
}
void f15(const float *restrict x, const float *restrict y, float *restrict z, int n) {
    for (int i = 0; i < n; i++) z[i] = x[i] + y[i];
}
void f16(float a, const float *restrict x, float *restrict y, int n) {
    for (int i = 0; i < n; i++) y[i] += a * x[i];
}
void f17(const float *restrict x, const float *restrict s, const float *restrict b, float *restrict y, int ch, int n) {
    for (int c = 0; c < ch; c++)
        for (int i = 0; i < n; i++) y[c * n + i] = x[c * n + i] * s[c] + b[c];
}
void f18(const volatile int *x, volatile int *y, int n) {
    for (int i = 0; i < n; i++) y[i] = x[i];
}
long f19(long a, long b) { return a ^ b; }
void f20(float *x, int n) {
    for (int i = 1; i < n; i++) x[i] += x[i - 1];
}
void f21(const uint8_t *x, int *h, int n) {
    for (int i = 0; i < n; i++) h[x[i]]++;
}
uint32_t f22(const uint8_t *p, int n, const uint32_t *t) {
    uint32_t c = ~0u;
    for (int i = 0; i < n; i++) c = t[(c ^ p[i]) & 255] ^ (c >> 8);
    return ~c;
}
struct l {
    struct l *n;
    long v;
};
long f23(struct l *p) {
    long s = 0;
    for (; p; p = p->n) s += p->v;
    return s;
}
int f24(const char *s) {
    int n = 0;
    while (s[n]) n++;
    return n;
}
void f25(int *a, int n) {
    for (int i = 1; i < n; i++) {
        int v = a[i], j = i;
        for (; j > 0 && a[j - 1] > v; j--) a[j] = a[j - 1];
        a[j] = v;
    }
}
uint32_t f26(const uint8_t *p, int n) {
    uint32_t h = 5381;
    for (int i = 0; i < n; i++) h = h * 33 + p[i];
    return h;
}
void f27(const uint8_t *restrict p, uint8_t *restrict o, int n) {
    for (int i = 0; i < n; i++) o[i] = (p[3 * i] * 77 + p[3 * i + 1] * 150 + p[3 * i + 2] * 29) >> 8;
}
float f28(const float *a, const float *b, int n) {
    float s = 0;
    for (int i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}
void f29(const float *a, const float *x, float *restrict y, int m, int n) {
    for (int i = 0; i < m; i++) {
        float s = 0;
        for (int j = 0; j < n; j++) s += a[i * n + j] * x[j];
        y[i] = s;
    }
}
void f30(const float *a, const float *b, float *restrict c, int k, int ld) {
    float s[4][4] = {0};
    for (int p = 0; p < k; p++)
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) s[i][j] += a[4 * p + i] * b[4 * p + j];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) c[i * ld + j] = s[i][j];
}
void f31(const float *x, const float *w, float *restrict y, int h, int b, int oc, int ic, int k) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < b; j++)
            for (int o = 0; o < oc; o++) {
                float s = 0;
                for (int p = 0; p < k; p++)
                    for (int q = 0; q < k; q++)
                        for (int c = 0; c < ic; c++)
                            s += x[((i + p) * (b + k) + j + q) * ic + c] * w[((o * k + p) * k + q) * ic + c];
                y[(i * b + j) * oc + o] = s;
            }
}
void f32(const float *restrict x, const float *restrict w, float *restrict y, int oc, int ic, int n) {
    for (int o = 0; o < oc; o++)
        for (int c = 0; c < ic; c++)
            for (int i = 0; i < n; i++) y[o * n + i] += w[o * ic + c] * x[c * n + i];
}
void f33(const float *restrict x, float *restrict y, int n) {
    for (int i = 0; i < n; i++) {
        float v = x[i];
        y[i] = ((((v * .1f + .2f) * v + .3f) * v + .4f) * v + .5f) * v + 1;
    }
}
void f34(const float *restrict x, float *restrict y, int h, int b) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < b; j++) {
            float m = x[2 * i * 2 * b + 2 * j];
            float t = x[2 * i * 2 * b + 2 * j + 1];
            m = t > m ? t : m;
            t = x[(2 * i + 1) * 2 * b + 2 * j];
            m = t > m ? t : m;
            t = x[(2 * i + 1) * 2 * b + 2 * j + 1];
            m = t > m ? t : m;
            y[i * b + j] = m;
        }
}
void f35(const float *restrict x, float *restrict o, int c, int h, int b, int k) {
    for (int a = 0; a < c; a++)
        for (int p = 0; p < k; p++)
            for (int q = 0; q < k; q++)
                for (int i = 0; i < h; i++)
                    for (int j = 0; j < b; j++) *o++ = x[(a * (h + k) + i + p) * (b + k) + j + q];
}
void f36(const float *restrict a, float *restrict c, float *restrict b, int panels, int rows, int n, int m, int ld) {
    for (int t = 0; t < panels; t++)
        for (int r = 0; r < rows; r++, c += n * ld)
            for (int i = 0; i < n; i++)
                for (int j = 0; j < m; j++) {
                    float solved = c[i * ld + j] * a[i * n + i];
                    *b++ = solved;
                    for (int k = i + 1; k < n; k++) c[k * ld + j] -= solved * a[i * n + k];
                }
}
