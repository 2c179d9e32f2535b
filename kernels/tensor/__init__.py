"""Kernels of operators on whole tensors: element-wise, reductions, pooling, copies, transposes, gathers."""
