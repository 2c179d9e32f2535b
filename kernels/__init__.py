"""Emitters of kernels: each takes a kernel spec (mavcg.specs.kernel) and adds an LLVM IR function to a module.

Where the next thing goes:

- Kernel family: with LOWER and EMIT, listed in registry.py (docs/add-a-primitive.md).
- Data type of products: three callables for builder/product_loop.py (docs/add-a-data-type.md).
"""
