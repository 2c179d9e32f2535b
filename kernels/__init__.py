"""Emitters of kernels: each takes a kernel spec (mavcg.specs.kernel) and adds an LLVM IR function to a module."""
