"""Kernels of weights of 2, 4 and 8 bits in blocks with scales: packed in the library, expanded in registers.

Where the next thing goes: another packing or number of bits in spec.py and packing.py, another instruction for products
of 8-bit activations in integer_terms.py.
"""
