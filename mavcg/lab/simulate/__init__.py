"""Trace-driven simulation of Arm cores and caches: an emulator runs code, and each executed instruction is timed."""
