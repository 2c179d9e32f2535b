/* Runs Eigen's product on shapes of small networks and around its blocks; prints a checksum per shape, and the time. */
#include "numbers.h"
#include "ops.h"

typedef struct {
    int rows, cols, depth, order;
} Shape;

static const Shape shapes[] = {
    {64, 196, 128, LEFT_ROW_MAJOR}, {96, 49, 144, LEFT_COL_MAJOR}, {100, 1, 256, LEFT_ROW_MAJOR},
    {1, 37, 19, LEFT_COL_MAJOR},    {13, 5, 3, LEFT_ROW_MAJOR},    {25, 33, 17, LEFT_COL_MAJOR},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

int main(int argc, char **argv) {
    int rounds = rounds_of(argc, argv);
    double spent = 0;
    uint64_t total = 0xcbf29ce484222325u;
    for (int s = 0; s < SHAPES; s++) {
        Shape at = shapes[s];
        size_t lefts = (size_t)at.rows * at.depth, rights = (size_t)at.depth * at.cols, outs = (size_t)at.rows * at.cols;
        float *left = memory_of(lefts, 4), *right = memory_of(rights, 4), *bias = memory_of(at.rows, 4);
        float *out = memory_of(outs, 4);
        for (size_t i = 0; i < lefts; i++) left[i] = next_float();
        for (size_t i = 0; i < rights; i++) right[i] = next_float();
        for (int i = 0; i < at.rows; i++) bias[i] = next_float();
        double begun = milliseconds();
        for (int r = 0; r < rounds; r++)
            if (eigen_gemm_f32(at.order, at.rows, at.cols, at.depth, left, right, bias, -6.0f, 6.0f, out)) return 1;
        spent += milliseconds() - begun;
        uint64_t hash = fnv1a(0xcbf29ce484222325u, out, outs * sizeof *out);
        total = fnv1a(total, &hash, sizeof hash);
        printf("%d x %d x %d: %016llx\n", at.rows, at.cols, at.depth, (unsigned long long)hash);
        free(left), free(right), free(bias), free(out);
    }
    printf("checksum %016llx\n", (unsigned long long)total);
    fprintf(stderr, "%.3f ms each\n", spent / rounds);
    return 0;
}
