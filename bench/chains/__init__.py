"""Differential testing by chains: random graphs of 2 to 30 operators with branches and joins, against three judges.

`python -m bench.chains --minutes 30` (`make differential`) grows graphs (growing.py and the kinds_*.py), builds many of
them into one library (libraries.py), and gives each a verdict (verdict.py) on the shapes of all tensors and the
outputs' elements, by onnxruntime without optimisation or LiteRT, and NumPy in double precision (judges.py). What
differs is shrunk to a file of some kilobytes (shrinking.py). Where the next operator goes: a function of kinds_*.py,
for TFLite of tflite_kinds_*.py.
"""
