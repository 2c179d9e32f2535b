/* Runs gemmlowp's product on shapes of small networks and around its blocks; prints a checksum per shape, and the time. */
#include "numbers.h"
#include "ops.h"

typedef struct {
    int rows, cols, depth;
} Shape;

static const Shape shapes[] = {{64, 196, 128}, {96, 49, 144}, {100, 1, 256}, {1, 37, 19}, {13, 5, 3}, {25, 33, 17}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

int main(int argc, char **argv) {
    int rounds = rounds_of(argc, argv);
    double spent = 0;
    uint64_t total = 0xcbf29ce484222325u;
    for (int s = 0; s < SHAPES; s++) {
        Shape at = shapes[s];
        size_t lefts = (size_t)at.rows * at.depth, rights = (size_t)at.depth * at.cols, outs = (size_t)at.rows * at.cols;
        uint8_t *left = memory_of(lefts, 1), *right = memory_of(rights, 1), *out = memory_of(outs, 1);
        int32_t *bias = memory_of(at.rows, 4), *sums = memory_of(outs, 4);
        for (size_t i = 0; i < lefts; i++) left[i] = (uint8_t)(1 + next_number() % 255);
        for (size_t i = 0; i < rights; i++) right[i] = (uint8_t)next_number();
        for (int i = 0; i < at.rows; i++) bias[i] = (int32_t)next_number() >> 18;
        Requantization q = {-128, -117, 1518500250, -9, 121, 0, 255};
        double begun = milliseconds();
        for (int r = 0; r < rounds; r++) {
            gemmlowp_gemm_u8(at.rows, at.cols, at.depth, left, right, bias, &q, out);
            if (s % 2 == 0) gemmlowp_gemm_s32(at.rows, at.cols, at.depth, left, right, -128, 7, sums);
        }
        spent += milliseconds() - begun;
        uint64_t hash = fnv1a(fnv1a(0xcbf29ce484222325u, out, outs), sums, outs * sizeof *sums);
        total = fnv1a(total, &hash, sizeof hash);
        printf("%d x %d x %d: %016llx\n", at.rows, at.cols, at.depth, (unsigned long long)hash);
        free(left), free(right), free(bias), free(out), free(sums);
    }
    printf("checksum %016llx\n", (unsigned long long)total);
    fprintf(stderr, "%.3f ms each\n", spent / rounds);
    return 0;
}
