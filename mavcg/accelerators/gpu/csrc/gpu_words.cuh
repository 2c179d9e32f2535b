// Words of four bytes, which all kernels here move: one f32, two f16 or four int8 channels of one pixel. A tensor is
// [channels / pack][rows][columns] words, so that all element types use the same tiles and the same loads.
#pragma once

#ifdef MAVCG_EMULATION
#include "gpu_emulation.h"
#endif

typedef unsigned int word;

enum ElementType { F32, F16, I8, I32 };
enum Activation { NO_ACTIVATION, RELU, LEAKY_RELU, CLIP };

__host__ __device__ constexpr int pack_of(int type) { return type == F16 ? 2 : type == I8 ? 4 : 1; }
__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
__host__ __device__ constexpr int round_up(int a, int b) { return ceil_div(a, b) * b; }

struct alignas(16) word4 {
    word at[4];
};

// The type of sums: f32, or i32 for int8 elements. Integers wrap around.
template <int TYPE> struct SumOf {
    typedef float type;
};
template <> struct SumOf<I8> {
    typedef int type;
};

#ifndef MAVCG_EMULATION
__device__ inline float as_float(word x) { return __uint_as_float(x); }
__device__ inline word as_word(float x) { return __float_as_uint(x); }

__device__ inline void halves_to_floats(word x, float &low, float &high) {
    asm("{ .reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }" : "=f"(low), "=f"(high) : "r"(x));
}

__device__ inline unsigned short half_of(float x) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

__device__ inline int dot4(word a, word b, int sum) { return __dp4a((int)a, (int)b, sum); }
__device__ inline int round_to_int(float x) { return __float2int_rn(x); }
// These intrinsics keep the compiler from fusing a product and a sum, which would skip one of the two roundings.
__device__ inline float product(float a, float b) { return __fmul_rn(a, b); }

__device__ inline unsigned shared_address(const void *at) {
    unsigned address;
    asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(address) : "l"(at));
    return address;
}

// Copy a word into shared memory, or store zero if it is outside of the tensor. The copy is asynchronous from sm_80 on.
__device__ inline void copy_word(word *to, const word *from, bool inside) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from), "r"(inside ? 4 : 0)
                 : "memory");
#else
    *to = inside ? __ldg(from) : 0u;
#endif
}

__device__ inline void copy_word4(word *to, const word *from, bool inside) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
                 "r"(inside ? 16 : 0)
                 : "memory");
#else
    const uint4 zero = {0u, 0u, 0u, 0u};
    *reinterpret_cast<uint4 *>(to) = inside ? __ldg(reinterpret_cast<const uint4 *>(from)) : zero;
#endif
}

__device__ inline void commit_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int LATER> __device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
#endif
}
#define MAVCG_SHARED(name) extern __shared__ word4 name##_words[]; word *name = reinterpret_cast<word *>(name##_words)
#endif

// Read N contiguous words of shared or global memory, in as few loads as their alignment (ALIGN words) allows.
template <int N, int ALIGN> __device__ inline void read_words(word (&to)[N], const word *from) {
    if constexpr (N % 4 == 0 && ALIGN % 4 == 0) {
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            const word4 four = *reinterpret_cast<const word4 *>(from + i);
            to[i] = four.at[0], to[i + 1] = four.at[1], to[i + 2] = four.at[2], to[i + 3] = four.at[3];
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; ++i) to[i] = from[i];
    }
}

// Operands of a multiply-accumulate in the form that the instruction takes, converted once per word.
template <int TYPE> struct Factor;
template <> struct Factor<F32> {
    float x;
    __device__ explicit Factor(word w) : x(as_float(w)) {}
    __device__ void mac(const Factor &o, float &sum) const { sum += x * o.x; }
};
template <> struct Factor<F16> {
    float x, y;
    __device__ explicit Factor(word w) { halves_to_floats(w, x, y); }
    __device__ void mac(const Factor &o, float &sum) const {
        sum += x * o.x;
        sum += y * o.y;
    }
};
template <> struct Factor<I8> {
    word x;
    __device__ explicit Factor(word w) : x(w) {}
    __device__ void mac(const Factor &o, int &sum) const { sum = dot4(x, o.x, sum); }
};

// Unpack the channels of a word into separate values of the sum's type.
template <int TYPE> __device__ inline void unpack(word w, typename SumOf<TYPE>::type (&to)[pack_of(TYPE)]) {
    if constexpr (TYPE == F16) {
        halves_to_floats(w, to[0], to[1]);
    } else if constexpr (TYPE == I8) {
#pragma unroll
        for (int i = 0; i < 4; ++i) to[i] = (int)(signed char)(w >> (8 * i));
    } else {
        to[0] = as_float(w);
    }
}

template <class L> __device__ inline float activated(float x) {
    if constexpr (L::ACTIVATION == RELU) return x > 0.0f ? x : 0.0f;
    if constexpr (L::ACTIVATION == LEAKY_RELU) return x > 0.0f ? x : product(x, L::low());
    if constexpr (L::ACTIVATION == CLIP) return x < L::low() ? L::low() : x > L::high() ? L::high() : x;
    return x;
}

// Convert a complete sum to an output element. bias: `channels` sums, for int8 followed by as many f32 scales.
// residual: an element of the output's type, as a sum. int8 requantizes by round(sum * scale), ties to even, clamped to
// -128..127.
template <class L>
__device__ inline typename SumOf<L::TYPE>::type finished(typename SumOf<L::TYPE>::type sum, int channel,
                                                         const void *bias, int channels,
                                                         typename SumOf<L::TYPE>::type residual) {
    if constexpr (L::OUTPUT == I32) {
        return sum;
    } else if constexpr (L::OUTPUT == I8) {
        const int *biases = static_cast<const int *>(bias);
        const float scale = reinterpret_cast<const float *>(biases + channels)[channel];
        const int total = (int)((unsigned)sum + (unsigned)biases[channel]);
        int whole = round_to_int(activated<L>(product((float)total, scale)));
        if constexpr (L::RESIDUAL) whole += residual;
        return whole < -128 ? -128 : whole > 127 ? 127 : whole;
    } else {
        float x = sum + static_cast<const float *>(bias)[channel];
        if constexpr (L::RESIDUAL) x += residual;
        return activated<L>(x);
    }
}

template <int OUTPUT, class SUM> __device__ inline word packed(const SUM (&lanes)[pack_of(OUTPUT)]) {
    if constexpr (OUTPUT == F16) {
        return (word)half_of(lanes[0]) | (word)half_of(lanes[1]) << 16;
    } else if constexpr (OUTPUT == I8) {
        return ((word)lanes[0] & 255u) | ((word)lanes[1] & 255u) << 8 | ((word)lanes[2] & 255u) << 16 |
               (word)lanes[3] << 24;
    } else if constexpr (OUTPUT == I32) {
        return (word)lanes[0];
    } else {
        return as_word(lanes[0]);
    }
}

// Read one element of a tensor of words, for words whose channels belong to several blocks.
template <int TYPE, class SUM> __device__ inline SUM element_at(const void *tensor, int channel, int pixel, int pixels) {
    constexpr int PACK = pack_of(TYPE);
    const long at = ((long)(channel / PACK) * pixels + pixel) * PACK + channel % PACK;
    if constexpr (TYPE == F16) {
        float low, high;
        halves_to_floats(static_cast<const unsigned short *>(tensor)[at], low, high);
        return low;
    } else if constexpr (TYPE == I8) {
        return static_cast<const signed char *>(tensor)[at];
    } else if constexpr (TYPE == I32) {
        return static_cast<const int *>(tensor)[at];
    } else {
        return static_cast<const float *>(tensor)[at];
    }
}

template <int TYPE, class SUM>
__device__ inline void set_element(void *tensor, int channel, int pixel, int pixels, SUM value) {
    constexpr int PACK = pack_of(TYPE);
    const long at = ((long)(channel / PACK) * pixels + pixel) * PACK + channel % PACK;
    if constexpr (TYPE == F16)
        static_cast<unsigned short *>(tensor)[at] = half_of(value);
    else if constexpr (TYPE == I8)
        static_cast<signed char *>(tensor)[at] = (signed char)value;
    else if constexpr (TYPE == I32)
        static_cast<int *>(tensor)[at] = (int)value;
    else
        static_cast<float *>(tensor)[at] = value;
}

// Convert COUNT consecutive channels of one pixel from complete sums, and store them.
template <class L, int COUNT>
__device__ inline void store_channels(const typename SumOf<L::TYPE>::type (&sums)[COUNT], void *output, int group,
                                      int first, int pixel, const void *bias, const void *residual) {
    typedef typename SumOf<L::TYPE>::type Sum;
    constexpr int PACK = pack_of(L::OUTPUT), PIXELS = L::OH * L::OW, CHANNELS = L::GROUPS * L::OC;
    constexpr bool WHOLE = COUNT % PACK == 0 && L::OC % PACK == 0;
    if constexpr (WHOLE) {
#pragma unroll
        for (int i = 0; i < COUNT; i += PACK) {
            if (first + i >= L::OC) return;
            const int channel = group * L::OC + first + i;
            const long at = (long)(channel / PACK) * PIXELS + pixel;
            Sum added[PACK] = {}, lanes[PACK];
            if constexpr (L::RESIDUAL) unpack<L::OUTPUT>(static_cast<const word *>(residual)[at], added);
#pragma unroll
            for (int k = 0; k < PACK; ++k) lanes[k] = finished<L>(sums[i + k], channel + k, bias, CHANNELS, added[k]);
            static_cast<word *>(output)[at] = packed<L::OUTPUT>(lanes);
        }
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            if (first + i >= L::OC) return;
            const int channel = group * L::OC + first + i;
            Sum added = 0;
            if constexpr (L::RESIDUAL) added = element_at<L::OUTPUT, Sum>(residual, channel, pixel, PIXELS);
            set_element<L::OUTPUT>(output, channel, pixel, PIXELS, finished<L>(sums[i], channel, bias, CHANNELS, added));
        }
    }
}
