"""Trace-driven simulation of Arm cores and caches: an emulator runs code, and each executed instruction is timed.

Where the next thing goes:

- Instruction's operands, memory and timing: rows.py, tables.py; pipelines and caches in C: csrc.
- What runs: a call (simulation.py), a model library (model_run.py), a whole program (process.py).
- Kernels by themselves, in windows of their rows (row_windows.py): of a primitive (simulated_jobs.py), of a step of a
  program (simulated_steps.py, simulated_layers.py).
"""
