// A convolution in tiles: operands in shared memory, sums in registers. L has the constants of the layer and its plan:
//   TYPE, OUTPUT, ACTIVATION, RESIDUAL
//   GROUPS, IC (words of a group), OC (channels of a group), IH, IW, OH, OW, KH, KW, SH, SW, DH, DW, TOP, LEFT
//   TILE_OC, TILE_IC (words), TILE_OH, TILE_OW: the plan's tile; the KH x KW window is never divided
//   RM, RN: sums of a thread, channels x pixels; THREADS_OC, THREADS_PIXELS: per block; MIN_BLOCKS: per multiprocessor
//   STATIONARY: the operand that stays; INNER: tiles of the other operands that a block processes before it changes
//   SPLITS: blocks that share a sum; STAGES: buffers for tiles of the moving operand
//   GATHER: a group's first channel need not be at the start of a word
// Weights are packed: [group][tile of OC][IC, rounded up to TILE_IC][KH][KW][TILE_OC] words.
#pragma once
#include "gpu_words.cuh"

enum Stationary { OUTPUT_STATIONARY, WEIGHT_STATIONARY, INPUT_STATIONARY };

template <class L> struct ConvTile {
    static constexpr int THREADS = L::THREADS_OC * L::THREADS_PIXELS;
    static constexpr int ROWS = (L::TILE_OH - 1) * L::SH + (L::KH - 1) * L::DH + 1;
    static constexpr int COLUMNS = (L::TILE_OW - 1) * L::SW + (L::KW - 1) * L::DW + 1;
    static constexpr int PLANE = ROWS * COLUMNS, TAPS = L::KH * L::KW;
    static constexpr int INPUT_WORDS = round_up(L::TILE_IC * PLANE, 4);
    static constexpr int WEIGHT_WORDS = round_up(L::TILE_IC * TAPS * L::TILE_OC, 4);
    static constexpr int REDUCTIONS = ceil_div(L::IC, L::TILE_IC), OC_TILES = ceil_div(L::OC, L::TILE_OC);
    static constexpr int TILES_ACROSS = ceil_div(L::OW, L::TILE_OW);
    static constexpr int PIXEL_TILES = ceil_div(L::OH, L::TILE_OH) * TILES_ACROSS;
    static constexpr int PIXELS = L::TILE_OH * L::TILE_OW;
    // A stationary operand needs a second buffer only if its tile changes.
    static constexpr int INPUT_STAGES = L::STATIONARY == INPUT_STATIONARY && REDUCTIONS == 1 ? 1 : L::STAGES;
    static constexpr int WEIGHT_STAGES = L::STATIONARY == WEIGHT_STATIONARY && REDUCTIONS == 1 ? 1 : L::STAGES;
    static constexpr int SHARED_BYTES = 4 * (INPUT_WORDS * INPUT_STAGES + WEIGHT_WORDS * WEIGHT_STAGES);
    // True if rows can be copied as vectors of four words: there is no halo, and rows begin at a vector.
    static constexpr bool VECTORS = L::KW == 1 && L::SW == 1 && L::LEFT == 0 && L::IW % 4 == 0 && COLUMNS % 4 == 0 &&
                                    !L::GATHER && L::IW >= L::OW;
};

// Load a tile of the input, row by row with its halo; padding is zero.
template <class L>
__device__ inline void load_input(word *to, const word *from, int group, int first, int row, int column) {
    typedef ConvTile<L> T;
    constexpr int STEP = T::VECTORS ? 4 : 1, COUNT = L::TILE_IC * T::PLANE;
#pragma unroll 4
    for (int i = threadIdx.x * STEP; i < COUNT; i += T::THREADS * STEP) {
        const int c = i / T::PLANE, r = row + i % T::PLANE / T::COLUMNS, q = column + i % T::COLUMNS;
        const bool inside = (unsigned)r < (unsigned)L::IH && (unsigned)q < (unsigned)L::IW && first + c < L::IC;
        if constexpr (L::GATHER) {
            // The group's channels are spread over several words, at other positions.
            word gathered = 0;
            constexpr int PACK = pack_of(L::TYPE), BITS = 32 / PACK;
            if (inside)
                for (int k = 0; k < PACK && (first + c) * PACK + k < L::IC_ELEMENTS; ++k) {
                    const int channel = group * L::IC_ELEMENTS + (first + c) * PACK + k;
                    const word all = from[((long)(channel / PACK) * L::IH + r) * L::IW + q];
                    gathered |= (all >> (channel % PACK * BITS) & ((1u << BITS) - 1u)) << (k * BITS);
                }
            to[i] = gathered;
        } else {
            const word *source = inside ? from + ((long)(group * L::IC + first + c) * L::IH + r) * L::IW + q : from;
            if constexpr (T::VECTORS)
                copy_word4(to + i, source, inside);
            else
                copy_word(to + i, source, inside);
        }
    }
}

// Load a tile of packed weights, which is contiguous.
template <class L> __device__ inline void load_weights(word *to, const word *from, int group, int oc_tile, int reduction) {
    typedef ConvTile<L> T;
    const long tile = (long)(group * T::OC_TILES + oc_tile) * T::REDUCTIONS + reduction;
#pragma unroll 4
    for (int i = threadIdx.x * 4; i < T::WEIGHT_WORDS; i += T::THREADS * 4)
        copy_word4(to + i, from + tile * T::WEIGHT_WORDS + i, true);
}

template <class L>
__device__ inline void multiply(typename SumOf<L::TYPE>::type (&sum)[L::RN][L::RM], const word *input,
                                const word *weights, const int (&offset)[L::RN]) {
    typedef ConvTile<L> T;
#pragma unroll(T::TAPS == 1 ? (L::TILE_IC < 8 ? L::TILE_IC : 8) : 1)
    for (int c = 0; c < L::TILE_IC; ++c) {
#pragma unroll(T::TAPS <= 25 ? L::KH : 1)
        for (int kh = 0; kh < L::KH; ++kh)
#pragma unroll
            for (int kw = 0; kw < L::KW; ++kw) {
                word w[L::RM];
                read_words<L::RM, (L::RM % 4 == 0 && L::TILE_OC % 4 == 0) ? 4 : 1>(
                    w, weights + ((c * L::KH + kh) * L::KW + kw) * L::TILE_OC);
                const word *x = input + c * T::PLANE + kh * L::DH * T::COLUMNS + kw * L::DW;
#pragma unroll
                for (int j = 0; j < L::RN; ++j) {
                    const Factor<L::TYPE> pixel(x[offset[j]]);
#pragma unroll
                    for (int m = 0; m < L::RM; ++m) pixel.mac(Factor<L::TYPE>(w[m]), sum[j][m]);
                }
            }
    }
}

template <class L>
__device__ inline void convolution(const void *input, const void *weights, void *output, const void *bias,
                                   const void *residual, void *partial) {
    typedef ConvTile<L> T;
    typedef typename SumOf<L::TYPE>::type Sum;
    MAVCG_SHARED(shared);
    word *const inputs = shared, *const filters = shared + T::INPUT_WORDS * T::INPUT_STAGES;
    const word *const from = static_cast<const word *>(input), *const packed_weights = static_cast<const word *>(weights);

    const int pixel_thread = threadIdx.x % L::THREADS_PIXELS, oc_thread = threadIdx.x / L::THREADS_PIXELS;
    constexpr bool PIXELS_INNER = L::STATIONARY == WEIGHT_STATIONARY, OC_INNER = L::STATIONARY == INPUT_STATIONARY;
    constexpr int OC_CHUNKS = OC_INNER ? ceil_div(T::OC_TILES, L::INNER) : T::OC_TILES;
    const int group = blockIdx.y / OC_CHUNKS;
    const int first_pixels = blockIdx.x * (PIXELS_INNER ? L::INNER : 1);
    const int first_oc = blockIdx.y % OC_CHUNKS * (OC_INNER ? L::INNER : 1);
    int inner = 1;
    if (PIXELS_INNER) inner = min(L::INNER, T::PIXEL_TILES - first_pixels);
    if (OC_INNER) inner = min(L::INNER, T::OC_TILES - first_oc);
    const int first_reduction = (int)((long)blockIdx.z * T::REDUCTIONS / L::SPLITS);
    const int reductions = (int)((long)(blockIdx.z + 1) * T::REDUCTIONS / L::SPLITS) - first_reduction;
    const int steps = reductions * inner;

    int offset[L::RN];
#pragma unroll
    for (int j = 0; j < L::RN; ++j) {
        int p = pixel_thread + j * L::THREADS_PIXELS;
        p = p < T::PIXELS ? p : 0;
        offset[j] = p / L::TILE_OW * L::SH * T::COLUMNS + p % L::TILE_OW * L::SW;
    }

    auto load_step = [&](int step) {
        if (step < steps) {
            const int r = step / inner, i = step % inner;
            const int tile = first_pixels + (PIXELS_INNER ? i : 0);
            if (!OC_INNER || i == 0) {
                const int row = tile / T::TILES_ACROSS * L::TILE_OH * L::SH - L::TOP;
                const int column = tile % T::TILES_ACROSS * L::TILE_OW * L::SW - L::LEFT;
                const int stage = (OC_INNER ? r : step) % T::INPUT_STAGES;
                load_input<L>(inputs + stage * T::INPUT_WORDS, from, group, (first_reduction + r) * L::TILE_IC, row,
                              column);
            }
            if (!PIXELS_INNER || i == 0) {
                const int stage = (PIXELS_INNER ? r : step) % T::WEIGHT_STAGES;
                load_weights<L>(filters + stage * T::WEIGHT_WORDS, packed_weights, group,
                                first_oc + (OC_INNER ? i : 0), first_reduction + r);
            }
        }
        commit_copies();
    };

    Sum sum[L::RN][L::RM];
    for (int s = 0; s < L::STAGES - 1; ++s) load_step(s);
    for (int step = 0; step < steps; ++step) {
        const int r = step / inner, i = step % inner;
        if constexpr (L::STAGES == 1) {
            if (step) __syncthreads();
            load_step(step);
            wait_for_copies<0>();
            __syncthreads();
        } else {
            wait_for_copies<L::STAGES - 2>();
            __syncthreads();
            load_step(step + L::STAGES - 1);
        }
        const int tile = first_pixels + (PIXELS_INNER ? i : 0), oc_tile = first_oc + (OC_INNER ? i : 0);
        const int first_channel = oc_tile * L::TILE_OC + oc_thread * L::RM;
        const int row0 = tile / T::TILES_ACROSS * L::TILE_OH, column0 = tile % T::TILES_ACROSS * L::TILE_OW;
        Sum *const sums = static_cast<Sum *>(partial) + ((long)(blockIdx.z * L::GROUPS + group) * L::OC) * L::OH * L::OW;
        // Sums stay in registers unless another output tile replaces them.
        const bool begin = r == 0, again = r > 0 && inner > 1;
        if (begin || again)
#pragma unroll
            for (int j = 0; j < L::RN; ++j)
#pragma unroll
                for (int m = 0; m < L::RM; ++m) sum[j][m] = 0;
        if constexpr (L::INNER > 1 && T::REDUCTIONS > 1)
            if (again)
                for (int j = 0; j < L::RN; ++j) {
                    const int p = pixel_thread + j * L::THREADS_PIXELS;
                    const int row = row0 + p / L::TILE_OW, column = column0 + p % L::TILE_OW;
                    if (p < T::PIXELS && row < L::OH && column < L::OW)
#pragma unroll
                        for (int m = 0; m < L::RM; ++m)
                            if (first_channel + m < L::OC)
                                sum[j][m] = sums[((long)(first_channel + m) * L::OH + row) * L::OW + column];
                }
        const int in_stage = (OC_INNER ? r : step) % T::INPUT_STAGES, wt_stage = (PIXELS_INNER ? r : step) % T::WEIGHT_STAGES;
        multiply<L>(sum, inputs + in_stage * T::INPUT_WORDS,
                    filters + wt_stage * T::WEIGHT_WORDS + oc_thread * L::RM, offset);
        const bool complete = r == reductions - 1;
        if (complete || inner > 1) {
#pragma unroll
            for (int j = 0; j < L::RN; ++j) {
                const int p = pixel_thread + j * L::THREADS_PIXELS;
                const int row = row0 + p / L::TILE_OW, column = column0 + p % L::TILE_OW;
                if (p >= T::PIXELS || row >= L::OH || column >= L::OW) continue;
                if (L::SPLITS > 1 || !complete) {
                    if constexpr (L::SPLITS > 1 || (L::INNER > 1 && T::REDUCTIONS > 1))
#pragma unroll
                        for (int m = 0; m < L::RM; ++m)
                            if (first_channel + m < L::OC)
                                sums[((long)(first_channel + m) * L::OH + row) * L::OW + column] = sum[j][m];
                } else if (first_channel < L::OC) {
                    store_channels<L, L::RM>(sum[j], output, group, first_channel, row * L::OW + column, bias, residual);
                }
            }
        }
    }
    wait_for_copies<0>();
}

// Add the sums of all splits in a fixed order, then bias, residual and activation. PACK channels of a pixel per thread.
template <class L>
__device__ inline void sum_of_splits(void *output, const void *bias, const void *residual, const void *partial) {
    typedef typename SumOf<L::TYPE>::type Sum;
    constexpr int PIXELS = L::OH * L::OW, PACK = pack_of(L::OUTPUT), WORDS = ceil_div(L::OC, PACK);
    constexpr long ALL = (long)L::GROUPS * L::OC * PIXELS;
    for (long at = blockIdx.x * (long)blockDim.x + threadIdx.x; at < (long)L::GROUPS * WORDS * PIXELS;
         at += (long)gridDim.x * blockDim.x) {
        const int pixel = (int)(at % PIXELS), group = (int)(at / PIXELS / WORDS), first = (int)(at / PIXELS % WORDS) * PACK;
        Sum total[PACK];
#pragma unroll
        for (int k = 0; k < PACK; ++k) {
            total[k] = 0;
            if (first + k < L::OC)
                for (int z = 0; z < L::SPLITS; ++z)
                    total[k] += static_cast<const Sum *>(partial)[z * ALL + ((long)group * L::OC + first + k) * PIXELS + pixel];
        }
        store_channels<L, PACK>(total, output, group, first, pixel, bias, residual);
    }
}
