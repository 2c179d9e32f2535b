// A fully connected layer on one pixel: a matrix-vector product, bound by the traffic of its weights.
//   RM: channels that a group of LANES threads computes; THREADS_OC: such groups; TILE_IC: words of x in shared memory
//   SPLITS: blocks that share a sum; sum_of_splits adds their sums
// Weights are [OC][IC] words, not packed.
#pragma once
#include "gpu_convolution.cuh"

template <class L> struct ProductTile {
    static constexpr int LANES = 32, THREADS = LANES * L::THREADS_OC, TILE_OC = L::RM * L::THREADS_OC;
    static constexpr int VECTOR = L::IC % 4 == 0 && L::TILE_IC % 4 == 0 ? 4 : 1;
    static constexpr int REDUCTIONS = ceil_div(L::IC, L::TILE_IC);
    static constexpr int SHARED_BYTES = 4 * (round_up(L::TILE_IC, 4) + L::RM * THREADS);
};

template <class L>
__device__ inline void fully_connected(const void *input, const void *weights, void *output, const void *bias,
                                       const void *residual, void *partial) {
    typedef ProductTile<L> T;
    typedef typename SumOf<L::TYPE>::type Sum;
    constexpr int V = T::VECTOR;
    MAVCG_SHARED(shared);
    word *const vector = shared;
    Sum *const sums = reinterpret_cast<Sum *>(shared + round_up(L::TILE_IC, 4));
    const word *const from = static_cast<const word *>(input);
    const int lane = threadIdx.x % T::LANES, row = threadIdx.x / T::LANES;
    const int group = blockIdx.y, first_channel = blockIdx.x * T::TILE_OC + row * L::RM;
    const word *const matrix = static_cast<const word *>(weights) + (long)group * L::OC * L::IC;
    const int first = (int)((long)blockIdx.z * T::REDUCTIONS / L::SPLITS);
    const int last = (int)((long)(blockIdx.z + 1) * T::REDUCTIONS / L::SPLITS);

    Sum sum[L::RM];
#pragma unroll
    for (int m = 0; m < L::RM; ++m) sum[m] = 0;
    for (int r = first; r < last; ++r) {
        const int begin = r * L::TILE_IC, count = min(L::TILE_IC, L::IC - begin);
        __syncthreads();
        for (int i = threadIdx.x; i < count; i += T::THREADS) vector[i] = from[group * L::IC + begin + i];
        __syncthreads();
#pragma unroll 2
        for (int i = lane * V; i < count; i += T::LANES * V) {
            word x[V], w[L::RM][V];
#pragma unroll
            for (int m = 0; m < L::RM; ++m) {
                // Channels beyond the last one repeat it: their sums are not stored.
                const int channel = min(first_channel + m, L::OC - 1);
                read_words<V, V>(w[m], matrix + (long)channel * L::IC + begin + i);
            }
            read_words<V, V>(x, vector + i);
#pragma unroll
            for (int m = 0; m < L::RM; ++m)
#pragma unroll
                for (int k = 0; k < V; ++k) Factor<L::TYPE>(x[k]).mac(Factor<L::TYPE>(w[m][k]), sum[m]);
        }
    }
#pragma unroll
    for (int m = 0; m < L::RM; ++m) sums[m * T::THREADS + threadIdx.x] = sum[m];
    __syncthreads();
    // Add the sums of the lanes in a fixed order, so that the result is always the same.
    for (int half = T::LANES / 2; half > 0; half /= 2) {
        if (lane < half)
#pragma unroll
            for (int m = 0; m < L::RM; ++m)
                sums[m * T::THREADS + threadIdx.x] += sums[m * T::THREADS + threadIdx.x + half];
        __syncthreads();
    }
    if (lane == 0) {
#pragma unroll
        for (int m = 0; m < L::RM; ++m) sum[m] = sums[m * T::THREADS + threadIdx.x];
        if constexpr (L::SPLITS > 1) {
            Sum *const to = static_cast<Sum *>(partial) + (long)(blockIdx.z * L::GROUPS + group) * L::OC;
            for (int m = 0; m < L::RM; ++m)
                if (first_channel + m < L::OC) to[first_channel + m] = sum[m];
        } else if (first_channel < L::OC) {
            store_channels<L, L::RM>(sum, output, group, first_channel, 0, bias, residual);
        }
    }
}
