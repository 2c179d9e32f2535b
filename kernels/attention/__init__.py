"""Kernels of attention, whose scores stay in a thread's scratch.

Where the next thing goes: what a query may see is decided in block.py; where rows begin and end, in groups.py.
"""
