// A program on Eigen with EIGEN_USE_BLAS: products of odd sizes, transposed, with vectors, beside sums in long double.
#define EIGEN_USE_BLAS
#include <Eigen/Dense>
#include <cmath>
#include <cstdio>
#include <limits>

template <typename Real>
static bool agrees(long rows, long columns, long terms) {
    using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic>;
    using Vector = Eigen::Matrix<Real, Eigen::Dynamic, 1>;
    const Matrix a = Matrix::Random(terms, rows), b = Matrix::Random(terms, columns);
    const Vector x = Vector::Random(terms);
    Matrix c = Matrix::Random(rows, columns);
    const Matrix before = c;
    c.noalias() += Real(0.5) * a.transpose() * b;
    const Vector y = a.transpose() * x;
    const Matrix plain = Matrix(a.transpose()) * b;
    const double bound = 2.0 * static_cast<double>(terms) * std::numeric_limits<Real>::epsilon();
    for (long i = 0; i < rows; i++) {
        long double sum = 0;
        for (long k = 0; k < terms; k++) sum += static_cast<long double>(a(k, i)) * x(k);
        if (std::fabs(static_cast<double>(y(i) - sum)) > bound) return false;
        for (long j = 0; j < columns; j++) {
            long double dot = 0;
            for (long k = 0; k < terms; k++) dot += static_cast<long double>(a(k, i)) * b(k, j);
            if (std::fabs(static_cast<double>(c(i, j) - (before(i, j) + 0.5L * dot))) > bound) return false;
            if (std::fabs(static_cast<double>(plain(i, j) - dot)) > bound) return false;
        }
    }
    return true;
}

int main() {
    static const long sizes[][3] = {{40, 5, 90}, {33, 70, 29}, {130, 12, 1100}, {200, 150, 170}};
    for (const auto &size : sizes)
        if (!agrees<float>(size[0], size[1], size[2]) || !agrees<double>(size[0], size[1], size[2])) {
            std::printf("%ld %ld %ld differs\n", size[0], size[1], size[2]);
            return 1;
        }
    std::puts("equal");
    return 0;
}
