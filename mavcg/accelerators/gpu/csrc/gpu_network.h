// Functions for a network's host program: tensors on the device as words, the same tensors on the host as f32 in the
// graph's own order, and CPU versions of the operators that have no kernel.
#pragma once
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

#include "gpu_half.h"

static void checked(cudaError_t status, const char *what) {
    if (status == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
    exit(1);
}

// A tensor of one image. A word holds PACK channels: 1 of f32, 2 of f16.
struct Tensor {
    int rows, columns, channels, pack;
    void *device;
    std::vector<float> host;

    Tensor(int r, int c, int k, int p, bool own = true) : rows(r), columns(c), channels(k), pack(p), device(NULL) {
        if (!own) return;
        checked(cudaMalloc(&device, words() * 4), "cudaMalloc");
        checked(cudaMemset(device, 0, words() * 4), "cudaMemset");  // zeroes the unused channels of the last word
    }
    size_t pixels() const { return (size_t)rows * columns; }
    size_t words() const { return (size_t)(channels + pack - 1) / pack * pixels(); }
    size_t place(size_t pixel, int c) const { return ((size_t)(c / pack) * pixels() + pixel) * pack + c % pack; }

    void download() {
        std::vector<char> raw(words() * 4);
        checked(cudaMemcpy(raw.data(), device, raw.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
        host.resize(pixels() * channels);
        for (size_t i = 0; i < pixels(); i++)
            for (int c = 0; c < channels; c++)
                host[i * channels + c] = pack == 1 ? ((float *)raw.data())[place(i, c)]
                                                   : float_of_half(((uint16_t *)raw.data())[place(i, c)]);
    }
    void upload() {
        std::vector<char> raw(words() * 4, 0);
        for (size_t i = 0; i < pixels(); i++)
            for (int c = 0; c < channels; c++) {
                const float x = host[i * channels + c];
                if (pack == 1)
                    ((float *)raw.data())[place(i, c)] = x;
                else
                    ((uint16_t *)raw.data())[place(i, c)] = half_from(x);
            }
        checked(cudaMemcpy(device, raw.data(), raw.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    }
};

typedef std::vector<int> Dims;

static void cpu_reshape(const std::vector<float> &from, std::vector<float> &to) { to = from; }

static void cpu_transpose(const std::vector<float> &from, std::vector<float> &to, const Dims &dims, const Dims &order) {
    const int rank = (int)dims.size();
    std::vector<size_t> step(rank, 1);
    for (int i = rank - 2; i >= 0; i--) step[i] = step[i + 1] * dims[i + 1];
    to.resize(from.size());
    Dims at(rank, 0);
    for (size_t i = 0; i < to.size(); i++) {
        size_t source = 0;
        for (int k = 0; k < rank; k++) source += at[k] * step[order[k]];
        to[i] = from[source];
        for (int k = rank - 1; k >= 0 && ++at[k] == dims[order[k]]; k--) at[k] = 0;
    }
}

static void cpu_softmax(const std::vector<float> &from, std::vector<float> &to, int length) {
    to.resize(from.size());
    for (size_t first = 0; first < from.size(); first += length) {
        float largest = from[first];
        double total = 0;
        for (int i = 0; i < length; i++) largest = fmaxf(largest, from[first + i]);
        for (int i = 0; i < length; i++) total += exp((double)from[first + i] - largest);
        for (int i = 0; i < length; i++) to[first + i] = (float)(exp((double)from[first + i] - largest) / total);
    }
}

static void cpu_lrn(const std::vector<float> &from, std::vector<float> &to, int channels, int size, double alpha,
                    double beta, double bias) {
    to.resize(from.size());
    for (size_t first = 0; first < from.size(); first += channels)
        for (int c = 0; c < channels; c++) {
            double squares = 0;
            const int begin = c - (size - 1) / 2, end = c + size / 2;
            for (int k = begin < 0 ? 0 : begin; k <= end && k < channels; k++)
                squares += (double)from[first + k] * from[first + k];
            to[first + c] = (float)(from[first + c] / pow(bias + alpha / size * squares, beta));
        }
}

static std::vector<char> file_bytes(const char *name, size_t least) {
    FILE *file = fopen(name, "rb");
    std::vector<char> data;
    if (file) {
        fseek(file, 0, SEEK_END);
        data.resize((size_t)ftell(file));
        rewind(file);
        if (fread(data.data(), 1, data.size(), file) != data.size()) data.clear();
        fclose(file);
    }
    if (data.size() < least) {
        fprintf(stderr, "%s: cannot be read, or has fewer than %zu bytes\n", name, least);
        exit(2);
    }
    return data;
}
