"""Text of a network's host program around its launches: tensors, and a main function that times the network."""

from dataclasses import dataclass

from mavcg.text.safe_text import comment


@dataclass(frozen=True)
class NetworkMain:
    """Lines and sizes that a network contributes to its host program.

    includes, tensors, body: lines of C++. weight_bytes: size of weights.bin. partial_bytes: size of the buffer of
    partial sums. input_tensor, output_tensor: names of C++ variables.
    """

    network: str
    includes: tuple[str, ...]
    tensors: tuple[str, ...]
    body: tuple[str, ...]
    weight_bytes: int
    partial_bytes: int
    input_tensor: str
    output_tensor: str

    def text(self) -> str:
        """Return the C++ program."""
        values = {
            "@NAME@": comment(self.network),
            "@KERNELS@": "\n".join(self.includes),
            "@TENSORS@": "\n".join(self.tensors),
            "@BODY@": "\n".join(self.body),
            "@WEIGHT_BYTES@": str(self.weight_bytes),
            "@PARTIAL@": str(self.partial_bytes),
            "@INPUT@": self.input_tensor,
            "@OUTPUT@": self.output_tensor,
        }
        text = _PROGRAM
        for key, value in values.items():
            text = text.replace(key, value)
        return text


_PROGRAM = """\
// @NAME@: the network, f32 input and output in the order of its graph (rows, columns, channels).
#include "gpu_network.h"
@KERNELS@

#define ALLOW_SHARED(kernel, bytes) \\
    checked(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), #kernel)

@TENSORS@

static void run(const char *weights, void *partial) {
@BODY@
    checked(cudaGetLastError(), "a kernel");
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: %s INPUT OUTPUT WEIGHTS (f32 tensors; weights.bin)\\n", argv[0]);
        return 2;
    }
    const size_t input_bytes = sizeof(float) * @INPUT@.pixels() * @INPUT@.channels;
    const std::vector<char> given = file_bytes(argv[1], input_bytes), constants = file_bytes(argv[3], @WEIGHT_BYTES@);
    @INPUT@.host.resize(input_bytes / sizeof(float));
    memcpy(@INPUT@.host.data(), given.data(), input_bytes);
    char *weights = NULL;
    void *partial = NULL;
    checked(cudaMalloc((void **)&weights, constants.size() + 16), "cudaMalloc");
    checked(cudaMalloc(&partial, @PARTIAL@), "cudaMalloc");
    checked(cudaMemcpy(weights, constants.data(), constants.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    cudaEvent_t start, end;
    float ms = 0;
    run(weights, partial);  // the first run loads the kernels
    cudaEventCreate(&start), cudaEventCreate(&end), cudaEventRecord(start);
    run(weights, partial);
    cudaEventRecord(end), cudaEventSynchronize(end), cudaEventElapsedTime(&ms, start, end);
    FILE *file = fopen(argv[2], "wb");
    const std::vector<float> &made = @OUTPUT@.host;
    if (!file || fwrite(made.data(), sizeof(float), made.size(), file) != made.size() || fclose(file)) {
        fprintf(stderr, "%s: cannot be written\\n", argv[2]);
        return 2;
    }
    printf("{\\"ms\\": %.4f}\\n", ms);
    return 0;
}
"""
