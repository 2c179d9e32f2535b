"""Plans for GPUs: tiles for blocks of threads, and the CUDA C++ that computes them.

Where the next thing goes:

- Kernel of GPUs: a header in csrc/, a plan in kernel_plan.py (conv_kernel.py), its time in kernel_time.py, the order of
  its weights in packing.py (docs/gpu.md).
"""
