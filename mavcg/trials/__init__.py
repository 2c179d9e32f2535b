"""Primitives run on generated scenarios, here or on an emulated core: checked against the definition, or timed."""
