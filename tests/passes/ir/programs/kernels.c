/* Kernels whose rounding a compiler may change: sums, multiply-adds, mixed and half precision, minima and signs of zero. */
#include <math.h>

float dot(const float *a, const float *b, int n) {
    float s = 0;
    for (int i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}

void gemm(const float *a, const float *b, float *c, int n) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            for (int j = 0; j < n; j++) c[i * n + j] += a[i * n + k] * b[k * n + j];
}

void softmax(const float *x, float *y, int n) {
    float most = x[0], sum = 0;
    for (int i = 1; i < n; i++) most = fmaxf(most, x[i]);
    for (int i = 0; i < n; i++) sum += y[i] = expf(x[i] - most);
    for (int i = 0; i < n; i++) y[i] /= sum;
}

float mixed(const float *a, const signed char *q, const int *z, int n) {
    float s = 1;
    for (int i = 0; i < n; i++) {
        s += a[i] * (float)q[i] - (float)z[i] / 3.0f;
        if (s > 1000) s *= 0.5f;
    }
    return s;
}

double converted(const unsigned long *u, const long *l, float *y, int n) {
    double s = 0;
    for (int i = 0; i < n; i++) {
        y[i] = (float)u[i] + (float)l[i];
        s += (double)u[i] * (double)l[i];
    }
    return s;
}

float half_sum(const _Float16 *a, const _Float16 *b, _Float16 *c, const int *z, int n) {
    float s = 0;
    for (int i = 0; i < n; i++) {
        c[i] = a[i] * b[i] + c[i];
        s += (float)(a[i] * (_Float16)z[i]);
    }
    return s;
}

int int8_dot(const signed char *a, const signed char *b, int n) {
    int s = 0;
    for (int i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}

float largest(const float *x, float *relu, int n) {
    float most = 0;
    for (int i = 0; i < n; i++) {
        relu[i] = fmaxf(0.0f, x[i]);
        most = fmaxf(most, x[i]);
    }
    return most;
}

float polynomial(const float *x, float *y, int n) {
    float s = 0;
    for (int i = 0; i < n; i++) {
        float v = x[i];
        y[i] = ((0.1f * v + 0.2f) * v + 0.3f) * v - v * v;
        s -= y[i] * v;
    }
    return 1.0f / sqrtf(s * s + 1e-5f);
}

void complex_product(const float *a, const float *b, float *c, int n) {
    for (int i = 0; i < n; i++) {
        c[2 * i] = a[2 * i] * b[2 * i] - a[2 * i + 1] * b[2 * i + 1];
        c[2 * i + 1] = a[2 * i] * b[2 * i + 1] + a[2 * i + 1] * b[2 * i];
    }
}
