// Depthwise convolutions and pooling: each channel is independent, so that channels keep their position in a word.
//   WINDOW: DEPTHWISE, MAXIMUM or AVERAGE; IC: words; TILE_IC: words per block; RN: pixels per thread
// Depthwise weights are [IC][KH][KW] words.
#pragma once
#include "gpu_convolution.cuh"

enum Window { DEPTHWISE, MAXIMUM, AVERAGE };

template <class L> struct WindowTile {
    static constexpr int ROWS = (L::TILE_OH - 1) * L::SH + (L::KH - 1) * L::DH + 1;
    static constexpr int COLUMNS = (L::TILE_OW - 1) * L::SW + (L::KW - 1) * L::DW + 1;
    static constexpr int PLANE = ROWS * COLUMNS, PIXELS = L::TILE_OH * L::TILE_OW, TAPS = L::KH * L::KW;
    static constexpr int THREADS = L::THREADS_PIXELS * L::TILE_IC;
    static constexpr int FILTER_WORDS = L::WINDOW == DEPTHWISE ? L::TILE_IC * TAPS : 0;
    static constexpr int SHARED_BYTES = 4 * (L::TILE_IC * PLANE + FILTER_WORDS);
};

template <class L>
__device__ inline void windows(const void *input, const void *weights, void *output, const void *bias,
                               const void *residual) {
    typedef WindowTile<L> T;
    typedef typename SumOf<L::TYPE>::type Sum;
    constexpr int PACK = pack_of(L::TYPE);
    MAVCG_SHARED(shared);
    word *const filters = shared + L::TILE_IC * T::PLANE;
    const word *const from = static_cast<const word *>(input);
    const int pixel_thread = threadIdx.x % L::THREADS_PIXELS, c = threadIdx.x / L::THREADS_PIXELS;
    constexpr int ACROSS = ceil_div(L::OW, L::TILE_OW);
    const int row0 = blockIdx.x / ACROSS * L::TILE_OH, column0 = blockIdx.x % ACROSS * L::TILE_OW;
    const int first = blockIdx.y * L::TILE_IC, top = row0 * L::SH - L::TOP, left = column0 * L::SW - L::LEFT;
#pragma unroll 4
    for (int i = threadIdx.x; i < L::TILE_IC * T::PLANE; i += T::THREADS) {
        const int channel = first + i / T::PLANE, r = top + i % T::PLANE / T::COLUMNS, q = left + i % T::COLUMNS;
        const bool inside = (unsigned)r < (unsigned)L::IH && (unsigned)q < (unsigned)L::IW && channel < L::IC;
        copy_word(shared + i, inside ? from + ((long)channel * L::IH + r) * L::IW + q : from, inside);
    }
    if constexpr (L::WINDOW == DEPTHWISE)
        for (int i = threadIdx.x; i < T::FILTER_WORDS; i += T::THREADS) {
            const bool inside = first + i / T::TAPS < L::IC;
            const word *const filter = static_cast<const word *>(weights);
            copy_word(filters + i, inside ? filter + (long)first * T::TAPS + i : filter, inside);
        }
    commit_copies();
    wait_for_copies<0>();
    __syncthreads();
    if (first + c >= L::IC) return;
#pragma unroll
    for (int j = 0; j < L::RN; ++j) {
        const int p = pixel_thread + j * L::THREADS_PIXELS;
        const int row = row0 + p / L::TILE_OW, column = column0 + p % L::TILE_OW;
        if (p >= T::PIXELS || row >= L::OH || column >= L::OW) continue;
        const int r0 = p / L::TILE_OW * L::SH, q0 = p % L::TILE_OW * L::SW;
        Sum sum[PACK];
        int count = 0;
#pragma unroll
        for (int k = 0; k < PACK; ++k) {
            sum[k] = 0;
            if constexpr (L::WINDOW == MAXIMUM) sum[k] = L::TYPE == I8 ? (Sum)-128 : (Sum)as_float(0xff800000u);
        }
#pragma unroll(T::TAPS <= 25 ? L::KH : 1)
        for (int kh = 0; kh < L::KH; ++kh)
#pragma unroll(T::TAPS <= 25 ? L::KW : 1)
            for (int kw = 0; kw < L::KW; ++kw) {
                const int r = r0 + kh * L::DH, q = q0 + kw * L::DW;
                Sum x[PACK];
                unpack<L::TYPE>(shared[c * T::PLANE + r * T::COLUMNS + q], x);
                if constexpr (L::WINDOW == DEPTHWISE) {
                    Sum w[PACK];
                    unpack<L::TYPE>(filters[(c * L::KH + kh) * L::KW + kw], w);
#pragma unroll
                    for (int k = 0; k < PACK; ++k) sum[k] += x[k] * w[k];
                } else {
                    const bool inside = (unsigned)(top + r) < (unsigned)L::IH && (unsigned)(left + q) < (unsigned)L::IW;
                    if (inside) {
                        ++count;
#pragma unroll
                        for (int k = 0; k < PACK; ++k)
                            sum[k] = L::WINDOW == AVERAGE ? sum[k] + x[k] : x[k] > sum[k] ? x[k] : sum[k];
                    }
                }
            }
        const int pixel = row * L::OW + column;
        if constexpr (L::WINDOW == DEPTHWISE) {
            // OC is 1 and GROUPS is the number of channels: a word holds PACK groups.
            constexpr int OUT = pack_of(L::OUTPUT), PIXELS = L::OH * L::OW;
            Sum lanes[PACK], added[PACK] = {};
            const long at = (long)(first + c) * PIXELS + pixel;
            if constexpr (L::RESIDUAL) unpack<L::OUTPUT>(static_cast<const word *>(residual)[at], added);
#pragma unroll
            for (int k = 0; k < PACK; ++k) {
                const int channel = (first + c) * PACK + k;
                lanes[k] = channel < L::GROUPS ? finished<L>(sum[k], channel, bias, L::GROUPS, added[k]) : Sum(0);
                if constexpr (OUT != PACK)
                    if (channel < L::GROUPS) set_element<L::OUTPUT>(output, channel, pixel, PIXELS, lanes[k]);
            }
            if constexpr (OUT == PACK) static_cast<word *>(output)[at] = packed<L::OUTPUT>(lanes);
        } else {
#pragma unroll
            for (int k = 0; k < PACK; ++k)
                if constexpr (L::WINDOW == AVERAGE) {
                    sum[k] = sum[k] / (count > 1 ? count : 1);
                }
            static_cast<word *>(output)[((long)(first + c) * L::OH + row) * L::OW + column] = packed<L::TYPE>(sum);
        }
    }
}
