"""Plans for GPUs: tiles for blocks of threads, and the CUDA C++ that computes them."""
