"""Differential testing by single operators: random graphs of one to three operators against other runtimes.

`python -m bench.differential` draws graphs (graphs.py and tflite.py with the operators of the other modules), builds
96 of them into one library (libraries.py), and judges each by onnxruntime or LiteRT and by a float64 result with a
bound on its rounding errors (truth.py, verdict.py). Where the next operator goes: graphs.py for ONNX, tflite.py for
TFLite; its definition, where ONNX's reference lacks or mistakes it, definitions.py.
"""
