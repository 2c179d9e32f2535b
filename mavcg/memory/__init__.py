"""Memory planning: which tensors share a buffer, and each buffer's offset in the arena."""
