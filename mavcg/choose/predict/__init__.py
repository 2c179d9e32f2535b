"""Predicted latency of a model on a board: cycles of its kernels, bytes that they move, and how threads share both.

Layers: block_counts, mix, work  <  kernel_cycles, memory  <  latency  <  threads  <  report, timeline. All figures are
modelled, not measured.
"""
