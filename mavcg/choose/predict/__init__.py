"""Predicted latency of a model on a board: cycles of its kernels, bytes that they move, and how threads share both.

Layers: block_counts, mix, work  <  kernel_cycles, memory  <  latency  <  threads  <  report, timeline. All figures are
modelled, not measured.

Where the next thing goes:

- Time of a kernel's cache lines: loop_accesses.py: accesses by loop; line_traffic.py: lines; exposure.py: their
  exposed time (docs/models.md).
- Layers that the model is unsure of: unsure.py; simulated: simulated_layers.py, mavcg/lab/simulate/simulated_steps.py
  (docs/tuning-models.md).
"""
