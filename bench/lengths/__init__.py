"""Libraries with a bounded dimension (docs/lengths.md): how fast they are at each length, and whether they are right.

`python -m bench.lengths` times them beside libraries of one length (__main__.py), and `python -m
bench.lengths.random_graphs` compares random graphs (growing.py, kinds.py) with onnxruntime and with libraries of one
length. Where the next operator goes: a function of kinds_values.py, kinds_shapes.py or kinds_layers.py, and the table
of kinds.py.
"""
