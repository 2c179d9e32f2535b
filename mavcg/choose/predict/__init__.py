"""Predicted latency of a model on a board: the price of kernels whose code is known (docs/design/one-price.md).

All figures are modelled, not measured. In the order in which they are computed:

- kernel_cycles: arithmetic of a kernel; from block_counts (executions of blocks), and the cycles of a block by mix
  (instructions by kind) or asm_blocks (compiled code).
- line_traffic: its cache lines; from loop_accesses and affine_addresses (what each loop reads and writes).
- latency: a step, on one core or several; from work (its operands; program_work reads them from a plan), memory (where
  these lie) and exposure (what waits for its lines).
- predict: a model on a board; algorithms: the fastest algorithm of a node; unsure: which steps to simulate.
- report, timeline: output for users.

Where the next thing goes:

- Time of a kernel's cache lines: loop_accesses.py: accesses by loop; line_traffic.py: lines; exposure.py: their
  exposed time (docs/models.md).
- Layers that the model is unsure of: unsure.py; simulated: simulated_layers.py, mavcg/lab/simulate
  (docs/tuning-models.md).
"""
