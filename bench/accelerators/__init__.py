"""Benches of accelerators and GPUs: programs of an instruction set, planned tilings, design spaces, CUDA kernels."""
