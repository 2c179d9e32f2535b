"""The C functions between the layers of a network; images are [rows, columns, channels], as in the graph."""

LIBRARY = """\
#include <math.h>
#include <stdlib.h>

#ifdef __GNUC__
#define PLAN_MAYBE __attribute__((unused)) static
#else
#define PLAN_MAYBE static
#endif

PLAN_MAYBE float *tensor(size_t count) { return malloc(sizeof(float) * count); }

/* An image of rows, columns, channels as the plans have it: channels, rows, columns. */
PLAN_MAYBE void channels_first(const float *x, float *y, int pixels, int channels) {
    for (int c = 0; c < channels; c++)
        for (int p = 0; p < pixels; p++) y[(int64_t)c * pixels + p] = x[(int64_t)p * channels + c];
}

/* A layer's result back, with bias and residual where there are any. */
PLAN_MAYBE void layer_end(const float *x, float *y, int pixels, int channels, const float *bias,
                          const float *residual) {
    for (int p = 0; p < pixels; p++)
        for (int c = 0; c < channels; c++) {
            float value = x[(int64_t)c * pixels + p] + (bias ? bias[c] : 0);
            y[(int64_t)p * channels + c] = value + (residual ? residual[(int64_t)p * channels + c] : 0);
        }
}

PLAN_MAYBE void act_relu(float *x, int count) {
    for (int i = 0; i < count; i++) x[i] = x[i] > 0 ? x[i] : 0;
}

PLAN_MAYBE void act_leaky_relu(float *x, int count, float alpha) {
    for (int i = 0; i < count; i++) x[i] = x[i] < 0 ? alpha * x[i] : x[i];
}

PLAN_MAYBE void act_clip(float *x, int count, float low, float high) {
    for (int i = 0; i < count; i++) x[i] = fminf(fmaxf(x[i], low), high);
}

PLAN_MAYBE void act_sigmoid(float *x, int count) {
    for (int i = 0; i < count; i++) x[i] = 1 / (1 + expf(-x[i]));
}

PLAN_MAYBE void act_tanh(float *x, int count) {
    for (int i = 0; i < count; i++) x[i] = tanhf(x[i]);
}

PLAN_MAYBE void pool(const float *x, float *y, int maximum, int rows, int columns, int channels, int out_h, int out_w,
                     int kernel_h, int kernel_w, int stride_h, int stride_w, int dilation_h, int dilation_w, int above,
                     int left) {
    for (int oh = 0; oh < out_h; oh++)
        for (int ow = 0; ow < out_w; ow++)
            for (int c = 0; c < channels; c++) {
                float total = 0, largest = -INFINITY;
                int count = 0;
                for (int kh = 0; kh < kernel_h; kh++)
                    for (int kw = 0; kw < kernel_w; kw++) {
                        int row = oh * stride_h + kh * dilation_h - above;
                        int column = ow * stride_w + kw * dilation_w - left;
                        if (row < 0 || row >= rows || column < 0 || column >= columns) continue;
                        float value = x[((int64_t)row * columns + column) * channels + c];
                        total += value;
                        largest = value > largest ? value : largest;
                        count++;
                    }
                y[((int64_t)oh * out_w + ow) * channels + c] = maximum ? largest : count ? total / count : 0;
            }
}

PLAN_MAYBE void copy_runs(const float *x, float *y, int runs, int run, int pitch) {
    for (int i = 0; i < runs; i++) memcpy(y + (int64_t)i * pitch, x + (int64_t)i * run, sizeof(float) * run);
}

PLAN_MAYBE void softmax(const float *x, float *y, int rows, int length) {
    for (int i = 0; i < rows; i++, x += length, y += length) {
        float largest = x[0], total = 0;
        for (int j = 1; j < length; j++) largest = x[j] > largest ? x[j] : largest;
        for (int j = 0; j < length; j++) total += y[j] = expf(x[j] - largest);
        for (int j = 0; j < length; j++) y[j] /= total;
    }
}

PLAN_MAYBE void lrn(const float *x, float *y, int pixels, int channels, int size, double alpha, double beta,
                    double bias) {
    for (int p = 0; p < pixels; p++, x += channels, y += channels)
        for (int c = 0; c < channels; c++) {
            int first = c - (size - 1) / 2, last = c + size / 2;
            double total = 0;
            for (int i = first < 0 ? 0 : first; i <= last && i < channels; i++) total += (double)x[i] * x[i];
            y[c] = (float)(x[c] / pow(bias + alpha / size * total, beta));
        }
}

/* sizes, steps: of the result's dimensions; steps in elements of x. */
PLAN_MAYBE void transpose(const float *x, float *y, int rank, const int *sizes, const int *steps) {
    if (rank == 0) {
        *y = *x;
        return;
    }
    int64_t inside = 1;
    for (int i = 1; i < rank; i++) inside *= sizes[i];
    for (int i = 0; i < sizes[0]; i++)
        transpose(x + (int64_t)i * steps[0], y + i * inside, rank - 1, sizes + 1, steps + 1);
}

"""

# CONV and FC over a BLAS: patches as a matrix, and one product. Names are those of CBLAS (Netlib).
BLAS_RUNTIME = """\
/* Operators of a plan over a BLAS: cc -DPLAN_RUNTIME='"plan_blas.h"' network.c -lopenblas (or another CBLAS). */
#include <stdlib.h>

void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc);
void cblas_sgemv(int order, int trans, int m, int n, float alpha, const float *a, int lda, const float *x, int incx,
                 float beta, float *y, int incy);

enum { PLAN_ROW_MAJOR = 101, PLAN_NO_TRANS = 111 };

static float *plan_patches(size_t count) {
    static float *buffer;
    static size_t size;
    if (count > size) {
        free(buffer);
        buffer = malloc(sizeof(float) * count);
        if (!buffer) abort();
        size = count;
    }
    return buffer;
}

PLAN_APART void plan_conv_by_blas(const input_t *in, const weight_t *wt, psum_t *ot, const struct plan_conv *p) {
    int terms = p->ic * p->kh * p->kw, pixels = p->oh * p->ow;
    const float *columns = in;
    if (p->kh * p->kw > 1 || p->stride_h > 1 || p->stride_w > 1 || p->pad_left || p->pad_above || p->ih != p->oh ||
        p->iw != p->ow) {
        float *to = plan_patches((size_t)terms * pixels);
        columns = to;
        for (int ic = 0; ic < p->ic; ic++)
            for (int kh = 0; kh < p->kh; kh++)
                for (int kw = 0; kw < p->kw; kw++)
                    for (int oh = 0; oh < p->oh; oh++)
                        for (int ow = 0; ow < p->ow; ow++) {
                            int row = oh * p->stride_h + kh * p->dilation_h - p->pad_above;
                            int column = ow * p->stride_w + kw * p->dilation_w - p->pad_left;
                            int inside = row >= 0 && row < p->ih && column >= 0 && column < p->iw;
                            *to++ = inside ? in[(ic * p->ih + row) * p->iw + column] : 0;
                        }
    }
    cblas_sgemm(PLAN_ROW_MAJOR, PLAN_NO_TRANS, PLAN_NO_TRANS, p->oc, pixels, terms, 1, wt, terms, columns, pixels,
                p->add ? 1.0f : 0.0f, ot, pixels);
}
#define PLAN_CONV plan_conv_by_blas

PLAN_APART void plan_fc_by_blas(const input_t *in, const weight_t *wt, psum_t *ot, const struct plan_conv *p) {
    cblas_sgemv(PLAN_ROW_MAJOR, PLAN_NO_TRANS, p->oc, p->ic, 1, wt, p->ic, in, 1, p->add ? 1.0f : 0.0f, ot, 1);
}
#define PLAN_FC plan_fc_by_blas
"""
