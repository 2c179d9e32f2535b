"""Predicted latency of a model on a board: cycles of its kernels, bytes that they move, and how threads share both.

From the ground up: block_counts, mix, work  <  kernel_cycles, memory  <  latency  <  threads  <  report, timeline.
Everything here is a model's answer, not a measurement.
"""
