"""Arm cores and caches, trace driven: code runs in an emulator, and every executed instruction is timed."""
