/* The signature of a compiled kernel: for the engine, for programs that measure kernels, and for Python. */
#ifndef MAVCG_KERNEL_API
#define MAVCG_KERNEL_API 1

#include <stdint.h>

/* Computes rows begin to end - 1. operands: addresses of the step's operands. scratch: aligned to 64 bytes. */
typedef void engine_kernel(void *const *operands, int64_t begin, int64_t end, void *scratch);

#endif
