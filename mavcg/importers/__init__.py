"""Importers of ONNX, TFLite and Caffe files, which become graphs.

load.py chooses the importer of a file. It reads the format (onnx_proto.py, tflite_parse.py, caffe_text.py) and calls
the handler of each operator (onnx_ops/, tflite_ops/, caffe_ops/) with a call (call.py), by which the handler adds nodes
to the graph under construction (emitter.py) and gets values (value.py).

Where the next thing goes:

- What handlers of several formats do: movement.py (cut, join, tile), indices.py (gather, scatter), windows.py,
  counted.py (lengths that a run decides), graph_loop.py and time_steps.py.
- Operator of a format: a handler (docs/add-an-operator.md).
"""
