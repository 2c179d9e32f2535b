// Two hot functions, a template's member among them, a few that are not, and no library: the program that the recorded
// profiles in this folder are of. argv[1] repeats the work.
namespace nn {
template <typename T, int Bias> struct Gemm {
    __attribute__((noinline)) void operator()(const T *a, const T *b, T *c, int n) const {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                T sum = Bias;
                for (int k = 0; k < n; k++) sum += a[i * n + k] * b[k * n + j];
                c[i * n + j] = sum;
            }
    }
};
__attribute__((noinline)) void relu(float *x, int n) {
    for (int i = 0; i < n; i++) x[i] = x[i] > 0.f ? x[i] * 0.99f : 0.f;
}
__attribute__((noinline)) void fill(float *x, int n) {
    for (int i = 0; i < n; i++) x[i] = float(i % 7) - 3.f;
}
} // namespace nn

static float a[64 * 64], b[64 * 64], c[64 * 64];

int main(int argc, char **argv) {
    int repeats = 0;
    for (const char *p = argc > 1 ? argv[1] : "1"; *p; p++) repeats = repeats * 10 + (*p - '0');
    nn::fill(a, 64 * 64);
    nn::fill(b, 64 * 64);
    for (int r = 0; r < repeats; r++) {
        nn::Gemm<float, 3>()(a, b, c, 64);
        for (int i = 0; i < 40; i++) nn::relu(c, 64 * 64);
    }
    return c[5] > 1e30f;
}
