"""Differential testing by single operators: random graphs of one to three of them against other runtimes.

`python -m bench.differential` draws graphs (graphs.py and tflite_graphs.py), builds 96 of them into one library
(libraries.py), and judges each: by onnxruntime and a float64 result with a bound on its rounding errors (truth.py,
verdict.py), or by LiteRT (tflite_verdict.py). Where the next operator goes: the module of graphs that it is like, and
the table KINDS of graphs.py or tflite_graphs.py; its definition, where ONNX's reference lacks it, in definitions.py.
"""
