/* A mixed-radix FFT with static passes and functions that users call, as signal libraries have them. */
#include <math.h>
#include <stddef.h>
#include <string.h>

typedef struct {
    int n, count, factors[32];
    const float *twiddles;
    float *work;
} plan;

static void forward2(int m, int l, const float *in, float *out, const float *w) {
    for (int k = 0; k < l; k++)
        for (int i = 0; i < m; i++) {
            const float *a = in + 2 * (2 * k * m + i), *b = a + 2 * m;
            float *c = out + 2 * (k * m + i), *d = c + 2 * l * m;
            float re = a[0] - b[0], im = a[1] - b[1];
            c[0] = a[0] + b[0];
            c[1] = a[1] + b[1];
            d[0] = w[2 * i] * re + w[2 * i + 1] * im;
            d[1] = w[2 * i] * im - w[2 * i + 1] * re;
        }
}

static void backward2(int m, int l, const float *in, float *out, const float *w) {
    for (int k = 0; k < l; k++)
        for (int i = 0; i < m; i++) {
            const float *a = in + 2 * (2 * k * m + i), *b = a + 2 * m;
            float *c = out + 2 * (k * m + i), *d = c + 2 * l * m;
            float re = a[0] - b[0], im = a[1] - b[1];
            c[0] = a[0] + b[0];
            c[1] = a[1] + b[1];
            d[0] = w[2 * i] * re - w[2 * i + 1] * im;
            d[1] = w[2 * i] * im + w[2 * i + 1] * re;
        }
}

static void turn(float *out, const float *w, float re, float im, float sign) {
    out[0] = w[0] * re + sign * w[1] * im;
    out[1] = w[0] * im - sign * w[1] * re;
}

#define PASS3(name, sign)                                                                               \
    static void name(int m, int l, const float *in, float *out, const float *w) {                       \
        const float half = -0.5f, root = sign * 0.86602540378f;                                         \
        for (int k = 0; k < l; k++)                                                                     \
            for (int i = 0; i < m; i++) {                                                               \
                const float *a = in + 2 * (3 * k * m + i), *b = a + 2 * m, *c = b + 2 * m;              \
                float *o = out + 2 * (k * m + i);                                                       \
                float sr = b[0] + c[0], si = b[1] + c[1], tr = a[0] + half * sr, ti = a[1] + half * si; \
                float ur = root * (b[0] - c[0]), ui = root * (b[1] - c[1]);                             \
                o[0] = a[0] + sr;                                                                       \
                o[1] = a[1] + si;                                                                       \
                turn(o + 2 * l * m, w + 2 * i, tr + ui, ti - ur, sign);                                 \
                turn(o + 4 * l * m, w + 2 * (m + i), tr - ui, ti + ur, sign);                           \
            }                                                                                           \
    }
PASS3(forward3, 1.0f)
PASS3(backward3, -1.0f)

#define PASS4(name, sign)                                                                                       \
    static void name(int m, int l, const float *in, float *out, const float *w) {                               \
        for (int k = 0; k < l; k++)                                                                             \
            for (int i = 0; i < m; i++) {                                                                       \
                const float *a = in + 2 * (4 * k * m + i), *b = a + 2 * m, *c = b + 2 * m, *d = c + 2 * m;      \
                float *o = out + 2 * (k * m + i);                                                               \
                float pr = a[0] + c[0], pi = a[1] + c[1], qr = a[0] - c[0], qi = a[1] - c[1];                   \
                float rr = b[0] + d[0], ri = b[1] + d[1], sr = sign * (b[1] - d[1]), si = sign * (d[0] - b[0]); \
                o[0] = pr + rr;                                                                                 \
                o[1] = pi + ri;                                                                                 \
                turn(o + 2 * l * m, w + 2 * i, qr + sr, qi + si, sign);                                         \
                turn(o + 4 * l * m, w + 2 * (m + i), pr - rr, pi - ri, sign);                                   \
                turn(o + 6 * l * m, w + 2 * (2 * m + i), qr - sr, qi - si, sign);                               \
            }                                                                                                   \
    }
PASS4(forward4, 1.0f)
PASS4(backward4, -1.0f)

#define PASS5(name, sign)                                                                                              \
    static void name(int m, int l, const float *in, float *out, const float *w) {                                      \
        const float c1 = 0.30901699437f, c2 = -0.80901699437f, s1 = sign * 0.95105651629f, s2 = sign * 0.58778525229f; \
        for (int k = 0; k < l; k++)                                                                                    \
            for (int i = 0; i < m; i++) {                                                                              \
                const float *a = in + 2 * (5 * k * m + i), *b = a + 2 * m, *c = b + 2 * m, *d = c + 2 * m,             \
                            *e = d + 2 * m;                                                                            \
                float *o = out + 2 * (k * m + i);                                                                      \
                float pr = b[0] + e[0], pi = b[1] + e[1], qr = b[0] - e[0], qi = b[1] - e[1];                          \
                float rr = c[0] + d[0], ri = c[1] + d[1], sr = c[0] - d[0], si = c[1] - d[1];                          \
                float xr = a[0] + c1 * pr + c2 * rr, xi = a[1] + c1 * pi + c2 * ri;                                    \
                float yr = a[0] + c2 * pr + c1 * rr, yi = a[1] + c2 * pi + c1 * ri;                                    \
                float ur = s1 * qr + s2 * sr, ui = s1 * qi + s2 * si, vr = s2 * qr - s1 * sr, vi = s2 * qi - s1 * si;  \
                o[0] = a[0] + pr + rr;                                                                                 \
                o[1] = a[1] + pi + ri;                                                                                 \
                turn(o + 2 * l * m, w + 2 * i, xr + ui, xi - ur, sign);                                                \
                turn(o + 4 * l * m, w + 2 * (m + i), yr + vi, yi - vr, sign);                                          \
                turn(o + 6 * l * m, w + 2 * (2 * m + i), yr - vi, yi + vr, sign);                                      \
                turn(o + 8 * l * m, w + 2 * (3 * m + i), xr - ui, xi + ur, sign);                                      \
            }                                                                                                          \
    }
PASS5(forward5, 1.0f)
PASS5(backward5, -1.0f)

static void any_radix(int r, int m, int l, const float *in, float *out, const float *w, float sign) {
    for (int k = 0; k < l; k++)
        for (int j = 0; j < r; j++) {
            float step = sign * 6.28318530718f * j / r;
            for (int i = 0; i < m; i++) {
                float re = 0, im = 0;
                for (int q = 0; q < r; q++) {
                    const float *a = in + 2 * ((r * k + q) * m + i);
                    float c = cosf(step * q), s = sinf(step * q);
                    re += a[0] * c + a[1] * s;
                    im += a[1] * c - a[0] * s;
                }
                float *o = out + 2 * ((j * l + k) * m + i);
                if (j) turn(o, w + 2 * ((j - 1) * m + i), re, im, sign);
                else {
                    o[0] = re;
                    o[1] = im;
                }
            }
        }
}

static void forward_pass(int r, int m, int l, const float *in, float *out, const float *w) {
    switch (r) {
    case 2: forward2(m, l, in, out, w); break;
    case 3: forward3(m, l, in, out, w); break;
    case 4: forward4(m, l, in, out, w); break;
    case 5: forward5(m, l, in, out, w); break;
    default: any_radix(r, m, l, in, out, w, 1.0f);
    }
}

static void backward_pass(int r, int m, int l, const float *in, float *out, const float *w) {
    switch (r) {
    case 2: backward2(m, l, in, out, w); break;
    case 3: backward3(m, l, in, out, w); break;
    case 4: backward4(m, l, in, out, w); break;
    case 5: backward5(m, l, in, out, w); break;
    default: any_radix(r, m, l, in, out, w, -1.0f);
    }
}

int fft_factors(int n, int *factors) {
    static const int tried[4] = {4, 2, 3, 5};
    int count = 0;
    for (int t = 0; t < 4; t++)
        while (n % tried[t] == 0) {
            factors[count++] = tried[t];
            n /= tried[t];
        }
    for (int f = 7; n > 1; f += 2)
        while (n % f == 0) {
            factors[count++] = f;
            n /= f;
        }
    return count;
}

void fft_twiddles(int n, const int *factors, int count, float *w) {
    int m = n;
    for (int f = 0; f < count; f++) {
        int r = factors[f];
        m /= r;
        for (int j = 1; j < r; j++)
            for (int i = 0; i < m; i++) {
                double angle = 6.283185307179586 * j * i / (r * m);
                *w++ = (float)cos(angle);
                *w++ = (float)sin(angle);
            }
    }
}

void fft_forward(const plan *p, float *data) {
    float *from = data, *to = p->work;
    const float *w = p->twiddles;
    int m = p->n, l = 1;
    for (int f = 0; f < p->count; f++) {
        int r = p->factors[f];
        m /= r;
        forward_pass(r, m, l, from, to, w);
        float *t = from;
        from = to;
        to = t;
        w += 2 * (r - 1) * m;
        l *= r;
    }
    if (from != data) memcpy(data, from, 2 * sizeof(float) * p->n);
}

void fft_backward(const plan *p, float *data) {
    float *from = data, *to = p->work;
    const float *w = p->twiddles;
    int m = p->n, l = 1;
    for (int f = 0; f < p->count; f++) {
        int r = p->factors[f];
        m /= r;
        backward_pass(r, m, l, from, to, w);
        float *t = from;
        from = to;
        to = t;
        w += 2 * (r - 1) * m;
        l *= r;
    }
    if (from != data) memcpy(data, from, 2 * sizeof(float) * p->n);
}

void fft_real_split(int n, const float *in, float *out, const float *w) {
    for (int i = 1; i < n / 2; i++) {
        float ar = in[2 * i], ai = in[2 * i + 1], br = in[2 * (n - i)], bi = -in[2 * (n - i) + 1];
        float sr = 0.5f * (ar + br), si = 0.5f * (ai + bi), dr = 0.5f * (ar - br), di = 0.5f * (ai - bi);
        out[2 * i] = sr + w[2 * i] * di - w[2 * i + 1] * dr;
        out[2 * i + 1] = si - w[2 * i] * dr - w[2 * i + 1] * di;
    }
    out[0] = in[0] + in[1];
    out[1] = in[0] - in[1];
}

void fft_real_join(int n, const float *in, float *out, const float *w) {
    for (int i = 1; i < n / 2; i++) {
        float ar = in[2 * i], ai = in[2 * i + 1], br = in[2 * (n - i)], bi = -in[2 * (n - i) + 1];
        float sr = 0.5f * (ar + br), si = 0.5f * (ai + bi), dr = 0.5f * (ar - br), di = 0.5f * (ai - bi);
        out[2 * i] = sr - w[2 * i] * di - w[2 * i + 1] * dr;
        out[2 * i + 1] = si + w[2 * i] * dr - w[2 * i + 1] * di;
    }
    out[0] = 0.5f * (in[0] + in[1]);
    out[1] = 0.5f * (in[0] - in[1]);
}

void fft_scale(float *data, int n, float by) {
    for (int i = 0; i < n; i++) data[i] *= by;
}

void fft_power(const float *in, float *out, int n) {
    for (int i = 0; i < n; i++) out[i] = in[2 * i] * in[2 * i] + in[2 * i + 1] * in[2 * i + 1];
}

void fft_magnitude(const float *in, float *out, int n) {
    for (int i = 0; i < n; i++) out[i] = sqrtf(in[2 * i] * in[2 * i] + in[2 * i + 1] * in[2 * i + 1]);
}

void fft_multiply(const float *a, const float *b, float *out, int n) {
    for (int i = 0; i < n; i++) {
        float re = a[2 * i] * b[2 * i] - a[2 * i + 1] * b[2 * i + 1];
        out[2 * i + 1] = a[2 * i] * b[2 * i + 1] + a[2 * i + 1] * b[2 * i];
        out[2 * i] = re;
    }
}

void fft_correlate(const float *a, const float *b, float *out, int n) {
    for (int i = 0; i < n; i++) {
        float re = a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
        out[2 * i + 1] = a[2 * i + 1] * b[2 * i] - a[2 * i] * b[2 * i + 1];
        out[2 * i] = re;
    }
}

void fft_hann(float *w, int n) {
    for (int i = 0; i < n; i++) w[i] = 0.5f - 0.5f * cosf(6.2831853f * i / n);
}

void fft_window(const float *in, const float *w, float *out, int n) {
    for (int i = 0; i < n; i++) {
        out[2 * i] = in[i] * w[i];
        out[2 * i + 1] = 0;
    }
}

void fft_overlap_add(const float *in, float *out, int n) {
    for (int i = 0; i < n; i++) out[i] += in[2 * i];
}

float fft_energy(const float *in, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum += in[i] * in[i];
    return sum;
}

float fft_peak(const float *in, int n) {
    float most = 0;
    for (int i = 0; i < n; i++) {
        float v = fabsf(in[i]);
        most = v > most ? v : most;
    }
    return most;
}

void fft_fir(const float *in, const float *taps, float *out, int n, int count) {
    for (int i = 0; i < n; i++) {
        float sum = 0;
        for (int k = 0; k < count; k++) sum += taps[k] * in[i + k];
        out[i] = sum;
    }
}

void fft_from_pcm(const short *in, float *out, int n) {
    for (int i = 0; i < n; i++) out[i] = in[i] * (1 / 32768.0f);
}

void fft_to_pcm(const float *in, short *out, int n) {
    for (int i = 0; i < n; i++) {
        float v = in[i] * 32767;
        out[i] = (short)(v > 32767 ? 32767 : v < -32768 ? -32768 : v);
    }
}

void fft_bit_reverse(float *data, int bits) {
    int n = 1 << bits;
    for (int i = 1; i < n; i++) {
        int j = 0;
        for (int b = 0; b < bits; b++) j |= (i >> b & 1) << (bits - 1 - b);
        if (j > i)
            for (int c = 0; c < 2; c++) {
                float t = data[2 * i + c];
                data[2 * i + c] = data[2 * j + c];
                data[2 * j + c] = t;
            }
    }
}
