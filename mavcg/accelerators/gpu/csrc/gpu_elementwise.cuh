// Element-wise operators on words. Nothing is reused, so there are no tiles: a thread processes four words at a time.
//   OPERATOR: COPY (one input, an activation), ADD, SUBTRACT, MULTIPLY, LARGER; COUNT: words
#pragma once
#include "gpu_words.cuh"

enum Elementwise { COPY, ADD, SUBTRACT, MULTIPLY, LARGER };

template <class L> __device__ inline float combined(float a, float b) {
    float x = a;
    if constexpr (L::OPERATOR == ADD) x = a + b;
    if constexpr (L::OPERATOR == SUBTRACT) x = a - b;
    if constexpr (L::OPERATOR == MULTIPLY) x = product(a, b);
    if constexpr (L::OPERATOR == LARGER) x = a > b ? a : b;
    return activated<L>(x);
}

template <class L> __device__ inline word combined_word(word a, word b) {
    constexpr int PACK = pack_of(L::TYPE);
    typename SumOf<L::TYPE>::type x[PACK], y[PACK];
    unpack<L::TYPE>(a, x);
    unpack<L::TYPE>(b, y);
#pragma unroll
    for (int k = 0; k < PACK; ++k) {
        const float z = combined<L>((float)x[k], (float)y[k]);
        if constexpr (L::TYPE == I8) {
            const int whole = round_to_int(z);
            x[k] = whole < -128 ? -128 : whole > 127 ? 127 : whole;
        } else {
            x[k] = z;
        }
    }
    return packed<L::TYPE>(x);
}

template <class L> __device__ inline void elementwise(const void *input, const void *other, void *output) {
    const word *const a = static_cast<const word *>(input), *const b = L::OPERATOR == COPY ? a : static_cast<const word *>(other);
    word *const to = static_cast<word *>(output);
    const long stride = (long)gridDim.x * blockDim.x, begin = blockIdx.x * (long)blockDim.x + threadIdx.x;
    constexpr long FOURS = L::COUNT / 4;
    for (long i = begin; i < FOURS; i += stride) {
        word x[4], y[4];
        read_words<4, 4>(x, a + 4 * i);
        read_words<4, 4>(y, b + 4 * i);
        word4 four;
#pragma unroll
        for (int k = 0; k < 4; ++k) four.at[k] = combined_word<L>(x[k], y[k]);
        *reinterpret_cast<word4 *>(to + 4 * i) = four;
    }
    for (long i = 4 * FOURS + begin; i < L::COUNT; i += stride) to[i] = combined_word<L>(a[i], b[i]);
}
