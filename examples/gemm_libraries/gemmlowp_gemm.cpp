// The 8-bit path: gemmlowp with the output pipeline of TFLite's quantised layers. On ARM its kernels are inline assembly.
#include <public/gemmlowp.h>

#include <tuple>

#include "ops.h"

namespace {

using gemmlowp::MapOrder;
using LeftMap = gemmlowp::MatrixMap<const std::uint8_t, MapOrder::RowMajor>;
using RightMap = gemmlowp::MatrixMap<const std::uint8_t, MapOrder::ColMajor>;

gemmlowp::GemmContext &context() {
    static thread_local gemmlowp::GemmContext one;
    return one;
}

}  // namespace

void gemmlowp_gemm_u8(int rows, int cols, int depth, const std::uint8_t *left, const std::uint8_t *right,
                      const std::int32_t *bias, const Requantization *q, std::uint8_t *out) {
    gemmlowp::VectorMap<const std::int32_t, gemmlowp::VectorShape::Col> bias_column(bias, rows);
    gemmlowp::OutputStageBiasAddition<decltype(bias_column)> add{bias_column};
    gemmlowp::OutputStageScaleInt32ByFixedPointAndExponent scale{q->multiplier, q->exponent, q->zero};
    gemmlowp::OutputStageClamp clamp{q->low, q->high};
    auto pipeline = std::make_tuple(add, scale, clamp, gemmlowp::OutputStageSaturatingCastToUint8());
    gemmlowp::MatrixMap<std::uint8_t, MapOrder::ColMajor> result(out, rows, cols);
    gemmlowp::GemmWithOutputPipeline<std::uint8_t, std::uint8_t, gemmlowp::L8R8WithLhsNonzeroBitDepthParams>(
        &context(), LeftMap(left, rows, depth), RightMap(right, depth, cols), &result, q->left_offset,
        q->right_offset, pipeline);
}

void gemmlowp_gemm_s32(int rows, int cols, int depth, const std::uint8_t *left, const std::uint8_t *right,
                       std::int32_t left_offset, std::int32_t right_offset, std::int32_t *out) {
    gemmlowp::MatrixMap<std::int32_t, MapOrder::ColMajor> result(out, rows, cols);
    gemmlowp::GemmWithOutputPipeline<std::uint8_t, std::int32_t, gemmlowp::DefaultL8R8BitDepthParams>(
        &context(), LeftMap(left, rows, depth), RightMap(right, depth, cols), &result, left_offset, right_offset,
        std::make_tuple());
}
