"""Memory planning: which tensors share a buffer, and each buffer's offset in the arena.

Where the next thing goes:

- Tensor that need not be moved: storage.py (docs/design/kernels.md); what the stages after it read: locations.py.
"""
