"""mavcg: one library, the right machine code on every core of a heterogeneous processor."""

__version__ = "0.1.0"
