// The fp32 path: Eigen's general matrix product on mapped memory, as TFLite's fully connected layer and im2col
// convolution called it.
#include <Eigen/Core>
#include <new>

#include "ops.h"

namespace {

template <int Order>
using Left = Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Order>>;
using Right = Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>>;
using Out = Eigen::Map<Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>>;

template <int Order>
void product(int rows, int cols, int depth, const float *left, const float *right, const float *bias, float low,
             float high, float *out) {
    Out result(out, rows, cols);
    result.noalias() = Left<Order>(left, rows, depth) * Right(right, depth, cols);
    Eigen::Map<const Eigen::ArrayXf> add(bias, rows);
    result.array().colwise() += add;
    result = result.cwiseMax(low).cwiseMin(high);
}

}  // namespace

int eigen_gemm_f32(int left_order, int rows, int cols, int depth, const float *left, const float *right,
                   const float *bias, float low, float high, float *out) {
    try {
        if (left_order == LEFT_ROW_MAJOR)
            product<Eigen::RowMajor>(rows, cols, depth, left, right, bias, low, high, out);
        else
            product<Eigen::ColMajor>(rows, cols, depth, left, right, bias, low, high, out);
        return 0;
    } catch (const std::bad_alloc &) {
        return 1;
    }
}
