"""Winograd family of convolution primitives: transforms, products of transformed tiles, inverse transform.

Where the next thing goes:

- Algorithm for an operator of the engine: node_step.py is the example; offered by ways_of of
mavcg/choose/lowering/lower.py
  (docs/design/kernels.md).
"""
