// The functions that the CUDA code of a plan calls (e-PlaNNer, 7.2): on-chip memories are buffers on the device; LOAD
// and STORE copy between these and off-chip memory, which is the host's, as in the paper's figure 7.2. The including
// file must first define input_t, weight_t, output_t, psum_t, MULTIPLY_ADD and PLAN_LOWEST.
#ifndef __CUDACC_RTC__
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef MAVCG_EMULATION
#include "gpu_emulation.h"
#include "plan_emulation.h"
#else
#include <cuda_runtime.h>
#define PLAN_LAUNCH(kernel, blocks, threads, ...) kernel<<<blocks, threads>>>(__VA_ARGS__)
#endif
#endif

struct plan_conv {
    int oc, ic, oh, ow, ih, iw, kh, kw;
    int stride_h, stride_w, dilation_h, dilation_w;
    int pad_left, pad_above;
    int add;
};

#define PLAN_THREADS 128

// Computes one sum per thread. Neighbouring threads read neighbouring pixels and the same weight.
extern "C" __global__ void __launch_bounds__(PLAN_THREADS)
    plan_conv_kernel(const input_t *in, const weight_t *wt, psum_t *ot, plan_conv p) {
    const int at = blockIdx.x * PLAN_THREADS + threadIdx.x, pixels = p.oh * p.ow;
    if (at >= p.oc * pixels) return;
    const int oc = at / pixels, oh = at % pixels / p.ow, ow = at % p.ow;
    psum_t sum = p.add ? ot[at] : 0;
    for (int kh = 0; kh < p.kh; kh++) {
        const int row = oh * p.stride_h + kh * p.dilation_h - p.pad_above;
        if (row < 0 || row >= p.ih) continue;
        for (int kw = 0; kw < p.kw; kw++) {
            const int column = ow * p.stride_w + kw * p.dilation_w - p.pad_left;
            if (column < 0 || column >= p.iw) continue;
            const input_t *x = in + row * p.iw + column;
            const weight_t *w = wt + (oc * p.ic * p.kh + kh) * p.kw + kw;
            for (int ic = 0; ic < p.ic; ic++) sum = MULTIPLY_ADD(sum, x[ic * p.ih * p.iw], w[ic * p.kh * p.kw]);
        }
    }
    ot[at] = sum;
}

extern "C" __global__ void __launch_bounds__(PLAN_THREADS) plan_relu_kernel(psum_t *ot, int count) {
    const int at = blockIdx.x * PLAN_THREADS + threadIdx.x;
    if (at < count && ot[at] < 0) ot[at] = 0;
}

extern "C" __global__ void __launch_bounds__(PLAN_THREADS) plan_convert_kernel(output_t *to, const psum_t *from, int count) {
    const int at = blockIdx.x * PLAN_THREADS + threadIdx.x;
    if (at < count) to[at] = (output_t)from[at];
}

#ifndef __CUDACC_RTC__
static struct {
    long long copies, bytes;
} plan_moved;

static void plan_checked(cudaError_t status, const char *what) {
    if (status == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
    exit(1);
}

static void *plan_allocate(size_t bytes) {
    void *memory = NULL;
    plan_checked(cudaMalloc(&memory, bytes ? bytes : 1), "cudaMalloc");
    return memory;
}

static int plan_blocks(int count) { return (count + PLAN_THREADS - 1) / PLAN_THREADS; }

static void PLAN_CONV(const input_t *in, const weight_t *wt, psum_t *ot, plan_conv p) {
    PLAN_LAUNCH(plan_conv_kernel, plan_blocks(p.oc * p.oh * p.ow), PLAN_THREADS, in, wt, ot, p);
    plan_checked(cudaGetLastError(), "CONV");
}
#define PLAN_FC PLAN_CONV

static void PLAN_RELU(psum_t *ot, int count) {
    PLAN_LAUNCH(plan_relu_kernel, plan_blocks(count), PLAN_THREADS, ot, count);
    plan_checked(cudaGetLastError(), "RELU");
}

// Copy a box of n[0] x n[1] x n[2] x n[3] elements of a tensor with these pitches to or from a dense tile on the
// device. A box is contiguous only if it spans whole rows and planes. Contiguous dimensions are merged; two remaining
// dimensions take one cudaMemcpy2D, three take one cudaMemcpy3D, and only a fourth takes several calls.
static void plan_copy(char *tile, char *tensor, size_t item, const int *n, const int64_t *pitch, bool to_device) {
    int64_t count[4], step[4];
    int dimensions = 0;
    for (int i = 0; i < 4; i++) {
        if (n[i] == 1 && i < 3) continue;
        if (dimensions && step[dimensions - 1] == n[i] * pitch[i]) {
            count[dimensions - 1] *= n[i];
            step[dimensions - 1] = pitch[i];
        } else {
            count[dimensions] = n[i];
            step[dimensions++] = pitch[i];
        }
    }
    if (step[dimensions - 1] != 1) count[dimensions] = 1, step[dimensions++] = 1;  // strided: runs of one element
    const cudaMemcpyKind kind = to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
    const size_t width = item * count[dimensions - 1];
    int64_t outer = 1, outer_step = 0;
    if (dimensions > 3) outer = count[0], outer_step = step[0];
    const int64_t first = dimensions > 3 ? 1 : 0;
    int64_t dense = width;
    for (int64_t i = first; i + 1 < dimensions; i++) dense *= count[i];
    for (int64_t o = 0; o < outer; o++) {
        char *const at = tile + o * dense, *const source = tensor + o * outer_step * item;
        plan_moved.copies++, plan_moved.bytes += dense;
        if (dimensions - first < 3) {
            const size_t rows = dimensions - first == 2 ? count[first] : 1;
            const size_t apart = rows > 1 ? item * step[first] : width;
            if (to_device)
                plan_checked(cudaMemcpy2D(at, width, source, apart, width, rows, kind), "LOAD");
            else
                plan_checked(cudaMemcpy2D(source, apart, at, width, width, rows, kind), "STORE");
        } else {
            const size_t planes = count[first], rows = count[first + 1], apart = item * step[first + 1];
            cudaMemcpy3DParms copy = {};
            cudaPitchedPtr outside = make_cudaPitchedPtr(source, apart, width, step[first] / step[first + 1]);
            cudaPitchedPtr inside = make_cudaPitchedPtr(at, width, width, rows);
            copy.srcPtr = to_device ? outside : inside;
            copy.dstPtr = to_device ? inside : outside;
            copy.extent = make_cudaExtent(width, rows, planes);
            copy.kind = kind;
            plan_checked(cudaMemcpy3D(&copy), to_device ? "LOAD" : "STORE");
        }
    }
}

static void load(void *tile, const void *tensor, size_t item, int n0, int64_t pitch0, int n1, int64_t pitch1, int rows,
                 int columns, int64_t pitch) {
    const int n[4] = {n0, n1, rows, columns};
    const int64_t pitches[4] = {pitch0, pitch1, pitch, 1};
    plan_copy((char *)tile, (char *)tensor, item, n, pitches, true);
}

static void store_box(void *tensor, const void *tile, size_t item, int channels, int64_t plane, int rows, int columns,
                      int64_t pitch) {
    const int n[4] = {1, channels, rows, columns};
    const int64_t pitches[4] = {0, plane, pitch, 1};
    plan_copy((char *)tile, (char *)tensor, item, n, pitches, false);
}

static void store_partial(psum_t *tensor, const psum_t *tile, int channels, int64_t plane, int rows, int columns,
                          int64_t pitch) {
    store_box(tensor, tile, sizeof(psum_t), channels, plane, rows, columns, pitch);
}

static void store(output_t *tensor, const psum_t *tile, int channels, int64_t plane, int rows, int columns, int64_t pitch) {
#ifdef PLAN_CONVERTS
    static output_t *converted = NULL;
    static int room = 0;
    const int count = channels * rows * columns;
    if (count > room) {
        if (converted) plan_checked(cudaFree(converted), "cudaFree");
        converted = (output_t *)plan_allocate(sizeof(output_t) * (size_t)(room = count));
    }
    PLAN_LAUNCH(plan_convert_kernel, plan_blocks(count), PLAN_THREADS, converted, tile, count);
    plan_checked(cudaGetLastError(), "STORE");
    store_box(tensor, converted, sizeof(output_t), channels, plane, rows, columns, pitch);
#else
    store_box(tensor, tile, sizeof(output_t), channels, plane, rows, columns, pitch);
#endif
}
#endif
