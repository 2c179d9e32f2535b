"""Many models for many boards built at once: equal kernels compiled once, on processes or a cluster.

May import: mavcg.accelerators.explore's engines, mavcg.model and what is below them.
"""
