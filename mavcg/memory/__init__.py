"""Memory planning: which tensors share a buffer, and where each buffer lies in the arena."""
