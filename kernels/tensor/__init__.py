"""Operators on whole tensors: element-wise, reductions, pooling, copies, transposes, gathers."""
