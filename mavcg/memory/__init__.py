"""Where the tensors of a model lie: which share a buffer, and where each buffer is in the arena."""
