"""A plan's commands as a CUDA program (e-PlaNNer, 7.2); memories become device buffers, CONV becomes a kernel."""

from collections.abc import Iterator
from math import prod

from mavcg.accelerators.plans.text.c_backend import C_TYPES, CWriter, has_partial, multiply_add
from mavcg.accelerators.plans.text.plan import Conv, PoolCommand, TextPlan
from mavcg.accelerators.plans.text.verify import verify_plan
from mavcg.errors import MavcgError
from mavcg.text.safe_text import comment

_ON_CHIP = {"INPUT": "input_t", "WEIGHT": "weight_t", "OUTPUT": "psum_t"}
# A main function: reads both tensors, runs the plan, writes the output and prints the copies, bytes and time.
_MAIN = """
#if !defined(__CUDACC_RTC__) && !defined(MAVCG_EMULATION)
static void *plan_file(const char *name, size_t bytes) {
    void *data = malloc(bytes);
    FILE *file = fopen(name, "rb");
    if (!file || fread(data, 1, bytes, file) != bytes) {
        fprintf(stderr, "%s: cannot be read, or has fewer than %zu bytes\\n", name, bytes);
        exit(2);
    }
    fclose(file);
    return data;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: %s INPUT WEIGHT OUTPUT (files of the tensors, row-major)\\n", argv[0]);
        return 2;
    }
    const input_t *input = (const input_t *)plan_file(argv[1], sizeof(input_t) * @INPUTS@);
    const weight_t *weight = (const weight_t *)plan_file(argv[2], sizeof(weight_t) * @WEIGHTS@);
    output_t *output = (output_t *)malloc(sizeof(output_t) * @OUTPUTS@);
    cudaEvent_t start, end;
    float ms = 0;
    @RUN@(input, weight, output);  // the first run loads the kernels
    plan_moved.copies = plan_moved.bytes = 0;
    cudaEventCreate(&start), cudaEventCreate(&end), cudaEventRecord(start);
    @RUN@(input, weight, output);
    cudaEventRecord(end), cudaEventSynchronize(end), cudaEventElapsedTime(&ms, start, end);
    FILE *file = fopen(argv[3], "wb");
    if (!file || fwrite(output, sizeof(output_t), @OUTPUTS@, file) != @OUTPUTS@ || fclose(file)) {
        fprintf(stderr, "%s: cannot be written\\n", argv[3]);
        return 2;
    }
    printf("{\\"copies\\": %lld, \\"bytes\\": %lld, \\"ms\\": %.4f}\\n", plan_moved.copies, plan_moved.bytes, ms);
    return 0;
}
#endif
"""


def plan_cuda(plan: TextPlan, function: str) -> str:
    """Return a CUDA C++ program with `void function(const INPUT *, const WEIGHT *, OUTPUT *)` on host memory.

    Raises: MavcgError for an invalid plan, a plan with pooling, or a type that C++ lacks.
    """
    verify_plan(plan)
    types = plan.info.types
    named = (types.input, types.weight, types.output, types.psum)
    unsupported = next((f"type {name}" for name in named if name not in C_TYPES), "")
    if plan.info.weight is None or any(isinstance(command, PoolCommand) for command in plan.commands):
        unsupported = "pooling"
    if unsupported:
        raise MavcgError(
            f"plan of {plan.name or 'a layer'}: {unsupported} cannot be a CUDA program; choose another layer or type"
        )
    keys = ("input_t", "weight_t", "output_t", "psum_t")
    head = [f"// The plan of {comment(plan.name or 'a layer')}, as CUDA."]
    head += ["#ifndef __CUDACC_RTC__", "#include <stdint.h>", "#else"]
    head += [
        "typedef signed char int8_t;",
        "typedef short int16_t;",
        "typedef unsigned uint32_t;",
        "typedef int int32_t;",
    ]
    head += ["typedef long long int64_t;", "typedef unsigned long long uint64_t;", "#endif"]
    head += [f"typedef {C_TYPES[name]} {key};" for name, key in zip(named, keys, strict=True)]
    head += [multiply_add(types.psum)]
    if types.psum != types.output:
        head.append("#define PLAN_CONVERTS")
    head += ['#include "plan_cuda.cuh"', "", "#ifndef __CUDACC_RTC__"]
    writer = _CudaWriter(plan)
    sizes = {
        "@INPUTS@": prod(plan.info.input),
        "@WEIGHTS@": prod(plan.info.weight or ()),
        "@OUTPUTS@": prod(plan.info.output),
        "@RUN@": function,
    }
    main = _MAIN
    for key, value in sizes.items():
        main = main.replace(key, str(value))
    return "\n".join([*head, *writer.memories(), *writer.function(function), "#endif", main])


class _CudaWriter(CWriter):
    """Writer of the memories as pointers that are allocated once, and of the function that holds the commands."""

    def memories(self) -> Iterator[str]:
        types = self.plan.info.types
        self.allocations: list[str] = []
        for memory in self.plan.memories:
            for operand in memory.holds:
                if (memory.name, operand) in self.regions:
                    size = memory.size_bytes if len(memory.holds) == 1 else self.regions[memory.name, operand]
                    name, kind = self.array(memory.name, operand), _ON_CHIP[operand]
                    yield f"static {kind} *{name};"
                    self.allocations.append(f"{name} = ({kind} *)plan_allocate({size});")
        if types.psum != types.output and has_partial(self.plan):
            yield f"static psum_t partial[{prod(self.plan.info.output)}]; // partial sums, off chip"

    def function(self, name: str) -> Iterator[str]:
        first, *commands = list(super().function(name))[1:]
        yield 'extern "C" ' + first
        yield "    static bool allocated = false;"
        yield f"    if (!allocated) {{ {' '.join(self.allocations)} allocated = true; }}"
        yield from commands
        yield 'extern "C" long long plan_copies() { return plan_moved.copies; }'
        yield 'extern "C" long long plan_bytes() { return plan_moved.bytes; }'

    def shape(self, command: Conv | PoolCommand) -> str:
        return super().shape(command).replace("&(const struct plan_conv){", "plan_conv{")
