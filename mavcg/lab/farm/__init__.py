"""Many models for many boards built at once: equal kernels compiled once, on processes or a cluster."""
