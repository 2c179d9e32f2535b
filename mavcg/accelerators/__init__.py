"""Compile networks for accelerators with an instruction set (DNNVM: Xing et al., IEEE TCAD 39(10), 2020)."""
